// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/host_mirror.h"

namespace ddp {

// Finds gradients that are infinite or no numbers. A NaN survives the sum over ranks, so all ranks
// see the same in what was reduced and need not talk about it. Whose it was can only be seen before
// the reduction: that takes a scan of its own, whose results ranks exchange after a hit.
class FiniteCheck {
 public:
  FiniteCheck(ProcessGroup& group, std::size_t parameters);

  // Forgets the scans of the last step; what is not scanned counts as finite.
  void begin_scan(Stream stream);
  // This rank's gradient i, not yet reduced.
  void scan(std::size_t i, const Buffer& gradient, Stream stream);
  // The index of the first buffer that is not finite. At most one buffer a parameter; blocks the
  // host on CUDA.
  [[nodiscard]] std::optional<std::size_t> find(std::span<const Buffer> buffers, Stream stream);

  // Collective, after a hit in a step that was scanned: the ranks whose gradients were bad before
  // the reduction, "rank 5 ('wte' and 3 more)"; empty if none was.
  [[nodiscard]] std::string culprits(std::span<const std::string> names, Stream stream);

 private:
  ProcessGroup& group_;
  std::size_t parameters_;
  HostMirror scanned_;  // by parameter: 1 if finite
  HostMirror found_;    // by buffer: 1 if finite
};

}  // namespace ddp
