// SPDX-License-Identifier: MIT
#include "ddp/engine/ready_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace ddp {
namespace {

bool is_worth_telling(const BucketLayout& layout, const OrderCost& cost) {
  return cost.bytes * 10 > layout.reduced_bytes();
}

bool contains(std::span<const std::size_t> list, std::size_t i) {
  return std::ranges::find(list, i) != list.end();
}

// Appends those parameters that belong there and are not in `order`, in the order of the buckets.
template <class Predicate>
void append_missing(std::vector<std::size_t>& order, const BucketLayout& layout,
                    Predicate belongs_there) {
  for (const BucketSpec& bucket : layout.buckets) {
    for (const std::size_t i : bucket.parameters) {
      if (belongs_there(i) && !contains(order, i)) order.push_back(i);
    }
  }
}

// How many numbers from `begin` on go up or down by one each.
std::size_t run_length(std::span<const std::size_t> order, std::size_t begin) {
  if (begin + 1 == order.size()) return 1;
  const std::size_t step = order[begin + 1] - order[begin];  // wraps around for -1
  if (step != 1 && step + 1 != 0) return 1;
  std::size_t end = begin + 1;
  while (end < order.size() && order[end] - order[end - 1] == step) ++end;
  return end - begin;
}

// "2, 1, 0"; of a model of many parameters, "5000 … 12, 3, 11 … 4".
std::string list_of(std::span<const std::size_t> order) {
  constexpr std::size_t kMostInFull = 200;
  constexpr std::size_t kShortestRun = 4;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < order.size();) {
    const std::size_t run = order.size() <= kMostInFull ? 1 : run_length(order, i);
    if (run < kShortestRun) {
      parts.push_back(fmt::format("{}", order[i++]));
    } else {
      parts.push_back(fmt::format("{} … {}", order[i], order[i + run - 1]));
      i += run;
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

OrderCost cost_of_order(const BucketLayout& layout, std::span<const std::size_t> observed) {
  std::vector<std::optional<std::size_t>> filled_at(layout.buckets.size());
  for (std::size_t at = 0; at < observed.size(); ++at) {
    filled_at[layout.slots[observed[at]].bucket] = at;  // the last one stays
  }
  OrderCost cost;
  std::size_t launched_at = 0;
  for (std::size_t b = 0; b < filled_at.size(); ++b) {
    if (!filled_at[b]) continue;
    launched_at = std::max(launched_at, *filled_at[b]);
    if (*filled_at[b] == launched_at) continue;
    ++cost.buckets;
    cost.bytes += layout.buckets[b].size_bytes();
  }
  return cost;
}

std::string order_advice(const BucketLayout& layout, std::span<const std::size_t> observed,
                         std::span<const std::size_t> awaited, Packing packing) {
  std::vector<std::size_t> order(observed.begin(), observed.end());
  append_missing(order, layout, [&](std::size_t i) { return contains(awaited, i); });
  const OrderCost cost = cost_of_order(layout, order);
  if (!is_worth_telling(layout, cost)) return "";
  append_missing(order, layout, [](std::size_t) { return true; });
  const std::string waited =
      fmt::format("{} of {} buckets were full but had to wait for an earlier one; ", cost.buckets,
                  layout.buckets.size());
  if (packing == Packing::kAligned) {
    return waited + fmt::format(
                        "pass the order in which gradients became ready as "
                        "DdpOptions::buckets.order = {{{}}}",
                        list_of(order));
  }
  std::ranges::reverse(order);
  return waited + fmt::format(
                      "register the parameters in the reverse of the order in which "
                      "gradients became ready: {}",
                      list_of(order));
}

}  // namespace ddp
