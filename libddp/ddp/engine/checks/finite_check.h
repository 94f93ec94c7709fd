// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/host_mirror.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// Finds gradients that are infinite or NaN. Both survive the sum over ranks, so all ranks see the
// same reduced gradients and reach the same decision without communicating. The rank that caused it
// can only be found before the reduction. That takes an additional scan, whose results the ranks
// exchange after a hit.
class FiniteCheck {
 public:
  // The group, the reducer and the parameters must outlive this object.
  FiniteCheck(ProcessGroup& group, const Reducer& reducer, std::span<const Parameter> parameters,
              const DdpOptions& options);

  // Begins a step. The step is scanned with DdpOptions::scan_gradients, or if the last step was not
  // finite.
  void begin_step(Stream stream);
  // Scans this rank's gradient i, as accumulated so far in the step and not yet reduced.
  void scan(std::size_t i, const Buffer& gradient, Stream stream);
  // Collective, at the end of a step. Returns false if the reduced gradients are not finite; with
  // NonFinite::kStop it throws NonFiniteError instead. Rank 0 warns of the 1st, 2nd, 4th, 8th, …
  // skipped step only, since a loss scaler skips many steps while it searches for its scale, and of
  // the first one that was scanned. Blocks the host on CUDA.
  [[nodiscard]] bool check(std::uint64_t step, Stream stream);

 private:
  [[nodiscard]] std::optional<std::size_t> find(std::span<const Buffer> buffers, Stream stream);
  [[nodiscard]] std::string describe(std::uint64_t step, Stream stream);
  [[nodiscard]] std::string culprits(Stream stream);

  ProcessGroup& group_;
  std::uint8_t issuer_;
  std::span<const Parameter> parameters_;
  NonFinite policy_;
  bool always_scans_;
  bool scans_ = false;      // whether gradients are scanned in this step
  bool was_finite_ = true;  // whether the last step's gradients were finite
  std::uint64_t skipped_ = 0;
  bool has_named_ranks_ = false;  // in a warning
  std::vector<Buffer> buckets_;
  std::vector<Buffer> gradients_;
  HostMirror scanned_;   // by parameter: 0 if its scan found a bad value, else 1
  cu::Event forgotten_;  // CUDA: scanned_ has been reset to 1
  HostMirror found_;     // by bucket or gradient: 1 if finite
};

}  // namespace ddp
