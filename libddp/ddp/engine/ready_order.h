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

// `observed` lists all parameters in the order in which their gradients became ready.
[[nodiscard]] OrderCost cost_of_order(const BucketLayout& layout,
                                      std::span<const std::size_t> observed);

// A sentence with the order to pass as BucketOptions::order. Empty if `observed` is not complete,
// or if at most a tenth of the bytes had to wait.
[[nodiscard]] std::string order_advice(const BucketLayout& layout,
                                       std::span<const std::size_t> observed);

}  // namespace ddp
