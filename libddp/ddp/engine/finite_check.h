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

// Finds infinite and NaN gradients. A NaN survives the sum over ranks, so all ranks see the same in
// the reduced gradients and decide alike without communicating. The rank that caused it can only be
// found before the reduction, by an extra scan whose results the ranks exchange after a hit.
class FiniteCheck {
 public:
  // `names` are those of the parameters. The reducer must outlive the check.
  FiniteCheck(ProcessGroup& group, const Reducer& reducer, std::vector<std::string> names,
              NonFinite policy, bool always_scans);

  // A step begins. It is scanned if scans are on, or if the last step was not finite.
  void begin_step(Stream stream);
  // Scans this rank's gradient i, which is not yet reduced.
  void scan(std::size_t i, const Buffer& gradient, Stream stream);
  // Collective, at the end of a step: false if the reduced gradients are not finite; with
  // NonFinite::kStop throws NonFiniteError. Rank 0 logs the 1st, 2nd, 4th, 8th, … skipped step
  // only, since a loss scaler in search of its scale skips many. Blocks the host on CUDA.
  [[nodiscard]] bool check(std::uint64_t step, Stream stream);

 private:
  [[nodiscard]] std::optional<std::size_t> find(std::span<const Buffer> buffers, Stream stream);
  [[nodiscard]] std::string describe(std::uint64_t step, Stream stream);
  [[nodiscard]] std::string culprits(Stream stream);

  ProcessGroup& group_;
  std::vector<std::string> names_;
  NonFinite policy_;
  bool always_scans_;
  bool scans_ = false;      // this step
  bool was_finite_ = true;  // the last one
  std::uint64_t skipped_ = 0;
  std::vector<Buffer> buckets_;
  std::vector<Buffer> gradients_;
  HostMirror scanned_;   // by parameter: 1 if finite or not scanned
  cu::Event forgotten_;  // CUDA: the result of the step before last is reset
  HostMirror found_;     // by buffer: 1 if finite
};

}  // namespace ddp
