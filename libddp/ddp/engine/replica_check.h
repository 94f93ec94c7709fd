// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/control_vector.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Fingerprints of a replica: of each parameter, and of each model buffer at its last broadcast.
// They are taken every few steps. Ranks compare one combined number, which travels in the control
// vector; only if it differs do they exchange all fingerprints, to name what has diverged.
//
// On CUDA the fingerprints of one step travel in the next step's control vector, when the device
// has computed them, and are compared in the step after that, when the vector has arrived; so the
// host does not wait.
class ReplicaCheck {
 public:
  ReplicaCheck(ProcessGroup& group, std::span<const Parameter> parameters,
               std::span<const ModelBuffer> buffers, int every);

  // Takes the fingerprints of the buffers, behind the work on `stream`.
  void take_buffers(Stream stream);
  // Step 1, 2, ... begins, with the values behind the work on `stream`. Returns the number to
  // compare in it.
  [[nodiscard]] std::uint64_t begin_step(std::uint64_t step, Stream stream);

  // Orders `consumer`, which is about to change parameters, behind the reads of the step that began
  // last; in the first step they are on another stream.
  void finish_reading(Stream consumer);

  // Collective, after a step. Throws MismatchError if the ranks' numbers differed in it: "step 300:
  // parameter 'w' of rank 2 (...) differs from that of rank 0 (...)". Blocks the host until the
  // step's control vector has arrived.
  void check(ControlVector& control);
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
  std::uint64_t taken_in_ = 0;  // the step in which they were taken
  bool is_reading_ = false;     // the reads of that step may still run
  std::uint64_t combined_ = 0;  // the last result of begin_step()
};

}  // namespace ddp
