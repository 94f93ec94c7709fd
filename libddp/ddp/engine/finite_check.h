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

// Finds gradients that are infinite or no numbers. A NaN survives the sum over ranks, so all ranks
// see the same in what was reduced and decide alike without a word. Whose it was can only be seen
// before the reduction: that takes a scan of its own, whose results ranks exchange after a hit.
class FiniteCheck {
 public:
  // `names` of the parameters; parameters and reducer outlive this.
  FiniteCheck(ProcessGroup& group, const Reducer& reducer, std::vector<std::string> names,
              NonFinite policy, bool always_scans);

  // A step begins: it is scanned if asked for, or if the last one was bad.
  void begin_step(Stream stream);
  // This rank's gradient i, as far as it has come in the step, not yet reduced.
  void scan(std::size_t i, const Buffer& gradient, Stream stream);
  // Collective, at the end of a step: false if what was reduced is not finite; with
  // NonFinite::kStop throws NonFiniteError. Of skipped steps rank 0 warns at the 1st, 2nd, 4th, 8th
  // and so on: a loss scaler in search of its scale skips many. Blocks the host on CUDA.
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
  HostMirror scanned_;   // by parameter: 1 if finite, or not scanned
  cu::Event forgotten_;  // CUDA: what the step before last found
  HostMirror found_;     // by buffer: 1 if finite
};

}  // namespace ddp
