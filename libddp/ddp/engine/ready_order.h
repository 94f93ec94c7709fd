// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ddp/engine/bucket_layout.h"

namespace ddp {

// The cost of launching buckets in one fixed order while backward may finish their gradients in
// another: the full buckets that had to wait for an earlier one.
struct OrderCost {
  std::size_t buckets = 0;
  std::size_t bytes = 0;  // total size of those buckets
};

// `observed` lists parameters in the order in which their gradients became ready; those that it
// does not list kept no bucket waiting.
[[nodiscard]] OrderCost cost_of_order(const BucketLayout& layout,
                                      std::span<const std::size_t> observed);

// A sentence with the order to pass as BucketOptions::order or, if the gradients lie in the
// caller's dense memory, with the order in which to register the parameters; empty if at most a
// tenth of the bytes had to wait. Of many parameters it shortens runs to "9 … 4". `awaited` lists
// the parameters that a pass waits for. Those that are not `observed` kept their buckets waiting
// until the end of the pass, and are last in the order, as are those that are in neither list.
[[nodiscard]] std::string order_advice(const BucketLayout& layout,
                                       std::span<const std::size_t> observed,
                                       std::span<const std::size_t> awaited,
                                       Packing packing = Packing::kAligned);

}  // namespace ddp
