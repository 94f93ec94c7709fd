// SPDX-License-Identifier: MIT
#include "ddp/engine/ready_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

bool is_worth_telling(const BucketLayout& layout, const OrderCost& cost) {
  return cost.bytes * 10 > layout.reduced_bytes();
}

}  // namespace

OrderCost cost_of_order(const BucketLayout& layout, std::span<const std::size_t> observed) {
  std::vector<std::size_t> filled_at(layout.buckets.size(), 0);
  for (std::size_t at = 0; at < observed.size(); ++at) {
    filled_at[layout.slots[observed[at]].bucket] = at;  // the last one stays
  }
  OrderCost cost;
  std::size_t launched_at = 0;
  for (std::size_t b = 0; b < filled_at.size(); ++b) {
    launched_at = std::max(launched_at, filled_at[b]);
    if (filled_at[b] == launched_at) continue;
    ++cost.buckets;
    cost.bytes += layout.buckets[b].size_bytes();
  }
  return cost;
}

std::string order_advice(const BucketLayout& layout, std::span<const std::size_t> observed) {
  if (observed.size() != layout.slots.size()) return "";
  const OrderCost cost = cost_of_order(layout, observed);
  if (!is_worth_telling(layout, cost)) return "";
  return fmt::format(
      "{} of {} buckets were full but had to wait for an earlier one; pass the order in which "
      "gradients became ready: .order = {{{}}}",
      cost.buckets, layout.buckets.size(), fmt::join(observed, ", "));
}

}  // namespace ddp
