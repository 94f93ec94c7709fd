// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Fingerprints of a replica: of each parameter, and of each model buffer when it was broadcast
// last. They are taken every so many steps, and ranks compare one number, which rides in the
// control vector; only if that differs do they exchange all of them, to name what has diverged.
//
// On CUDA the fingerprints of one step ride in the next one's vector, when the device has them
// ready, and are compared in the step after that, when the vector has arrived: the host need not
// wait.
class ReplicaCheck {
 public:
  ReplicaCheck(ProcessGroup& group, std::span<const Parameter> parameters,
               std::span<const ModelBuffer> buffers, int every);

  // Takes the buffers as they are behind `stream`.
  void take_buffers(Stream stream);
  // Step 1, 2, ... begins with the values as they are behind `stream`: returns the number to
  // compare in it.
  [[nodiscard]] std::uint64_t begin_step(std::uint64_t step, Stream stream);

  // Orders `consumer`, on which parameters are about to change, behind what reads them in the step
  // that began last: that may be another stream, and is in the first step.
  void finish_reading(Stream consumer);

  // Collective. Throws MismatchError if the ranks' numbers differed in the last step of `ledger`:
  // "step 300: parameter 'w' of rank 2 (...) differs from that of rank 0 (...)".
  void check(const ControlLedger& ledger);
  // Whether check() is due before step `step` begins, rather than at the end of each step.
  [[nodiscard]] bool is_due_before(std::uint64_t step) const;

 private:
  void take_parameters(std::uint64_t step, Stream stream);
  [[nodiscard]] std::uint64_t combined();
  [[nodiscard]] std::string difference();
  [[nodiscard]] std::string name(std::size_t i) const;
  [[nodiscard]] std::span<const std::uint64_t> own();
  [[nodiscard]] std::string describe(std::size_t i, std::span<const std::uint64_t> by_rank) const;

  ProcessGroup& group_;
  std::span<const Parameter> parameters_;
  std::span<const ModelBuffer> buffers_;
  HostMirror fingerprints_;  // uint64, parameters first
  std::uint64_t every_;
  std::uint64_t taken_in_ = 0;  // step
  bool is_reading_ = false;     // since then, perhaps
  std::uint64_t combined_ = 0;  // what begin_step() returned last
};

}  // namespace ddp
