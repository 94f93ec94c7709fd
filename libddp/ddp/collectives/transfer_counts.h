// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/collectives/collective.h"

namespace ddp {

// Numbers this rank's sends and receives: the n-th send to a rank meets its n-th recv from this
// one.
class TransferCounts {
 public:
  explicit TransferCounts(int world_size)
      : sent_(static_cast<std::size_t>(world_size)), received_(sent_) {}

  // The number of this send or recv, which is the next; the first is 1.
  [[nodiscard]] std::uint64_t next(const Collective& transfer) {
    auto& counts = transfer.kind == CollectiveKind::kSend ? sent_ : received_;
    return ++counts[static_cast<std::size_t>(transfer.peer)];
  }

 private:
  std::vector<std::uint64_t> sent_;      // to each rank
  std::vector<std::uint64_t> received_;  // from each rank
};

}  // namespace ddp
