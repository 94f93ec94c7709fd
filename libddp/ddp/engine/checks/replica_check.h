// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/checks/finite_parameters.h"
#include "ddp/engine/control_vector.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Compares fingerprints of the replicas. A replica has one fingerprint for each parameter, and one
// for each model buffer as of its last broadcast. The fingerprints of parameters are taken every so
// many steps, and in steps 2, 4, 8, ..., so that short trainings are checked, too. Ranks first
// compare a single number, the hash of all fingerprints, which travels in the control vector. Only
// if that number differs do they exchange all fingerprints, to name what has diverged.
//
// While the parameters are read anyway, rank 0 looks whether they are finite, unless gradients are
// checked; and whether the first step has changed any, unless steps may be skipped.
//
// On CUDA the host does not wait: the fingerprints of one step are sent in the next step's control
// vector, when the device has finished them, and compared in the step after that, when the vector
// has arrived.
class ReplicaCheck {
 public:
  // The arguments must outlive this object. `issuer`: the engine, for ScopedIssuer.
  ReplicaCheck(ProcessGroup& group, std::uint8_t issuer, ControlVector& control,
               std::span<const Parameter> parameters, const DdpOptions& options);

  // Before the first step: messages number the steps from steps + 1.
  void continue_after(std::uint64_t steps) { steps_before_ = steps; }
  // Takes the fingerprints of the buffers after the work on `stream`.
  void take_buffers(Stream stream);
  // Collective, like end_step(). Begins step 1, 2, ..., in which the parameters have the values
  // that they have after the work on `stream`. Returns the number that the ranks compare in this
  // step.
  //
  // Both throw MismatchError if the numbers of the last step that they compare differed: "step 300:
  // parameter 'w' of rank 2 (...) differs from that of rank 0 (...)"; or if ranks have gone on
  // after different numbers of steps.
  [[nodiscard]] std::uint64_t begin_step(std::uint64_t step, Stream stream);
  // The control vector of the step has been waited for. Orders `consumer`, on which the parameters
  // are about to change, behind the kernels that read them for the fingerprints. Those may run on
  // another stream, as they do in the first step. `has_samples`: this rank had some in the step.
  void end_step(Stream consumer, bool has_samples);

 private:
  // True if the fingerprints are taken in this step.
  [[nodiscard]] bool is_due(std::uint64_t step) const {
    return step > 0 && ((step - 1) % every_ == 0 || std::has_single_bit(step));
  }
  void check();
  void take_parameters(std::uint64_t step, Stream stream);
  // The results of take_parameters() have arrived.
  void take_results();
  void look_at_first_step();
  [[nodiscard]] std::uint64_t combined() const;
  [[nodiscard]] std::string difference();
  [[nodiscard]] std::string name(std::size_t i) const;
  [[nodiscard]] std::string describe(std::size_t i, std::span<const std::uint64_t> by_rank) const;
  [[nodiscard]] std::string describe_beginnings(std::span<const std::uint64_t> by_rank) const;

  ProcessGroup& group_;
  std::uint8_t issuer_;
  ControlVector& control_;
  std::span<const Parameter> parameters_;
  std::span<const ModelBuffer> buffers_;
  HostMirror fingerprints_;  // uint64; the parameters' first, then the buffers'
  std::uint64_t every_;
  std::uint64_t steps_before_ = 0;
  // The fingerprints that combined_ is made of, and the step of the parameters', as messages number
  // it. On CUDA those of a later step may already be on their way while the ranks compare these.
  std::uint64_t compared_in_ = 0;
  std::vector<std::uint64_t> compared_;
  std::uint64_t taken_in_ = 0;                    // the same for when the parameters were last read
  std::optional<FiniteParameters> finite_;        // on rank 0, until it has warned
  bool looks_at_first_step_;                      // until it is over; on rank 0
  std::vector<std::uint64_t> before_first_step_;  // the parameters' fingerprints
  bool is_reading_ = false;                       // the device may still be reading the parameters
  std::uint64_t combined_ = 0;                    // the number that begin_step() returned last
};

}  // namespace ddp
