// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Fingerprints of a replica: of each parameter, and of each model buffer when it was broadcast
// last. Ranks compare one number (in the control vector); only if that differs do they exchange all
// of them, to name what has diverged.
class ReplicaCheck {
 public:
  ReplicaCheck(ProcessGroup& group, std::span<const Parameter> parameters,
               std::span<const ModelBuffer> buffers);

  // Takes the values as they are behind `stream`.
  void take_parameters(std::uint64_t step, Stream stream);
  void take_buffers(Stream stream);

  // All of them in one number. On CUDA this waits for the device.
  [[nodiscard]] std::uint64_t combined();

  // Collective, after ranks had different combined() numbers: "step 300: parameter 'w' of rank 2
  // differs from that of the other ranks (...)".
  [[nodiscard]] std::string difference();

 private:
  [[nodiscard]] std::string name(std::size_t i) const;
  [[nodiscard]] std::span<const std::uint64_t> own();
  [[nodiscard]] std::string describe(std::size_t i, std::span<const std::uint64_t> by_rank) const;

  ProcessGroup& group_;
  std::span<const Parameter> parameters_;
  std::span<const ModelBuffer> buffers_;
  HostMirror fingerprints_;  // uint64, parameters first
  std::uint64_t step_ = 0;
  bool is_taken_ = false;
};

}  // namespace ddp
