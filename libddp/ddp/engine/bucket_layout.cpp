// SPDX-License-Identifier: MIT
#include "ddp/engine/bucket_layout.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::size_t total_bytes(std::span<const GradientSpec> gradients) {
  std::size_t total = 0;
  for (const GradientSpec& gradient : gradients) {
    total += gradient.count * size_of(gradient.dtype);
  }
  return total;
}

using Group = std::vector<std::size_t>;  // gradients of one bucket, by index

// Indices in the order in which gradients become ready.
std::vector<std::size_t> ready_order(std::size_t count, const std::vector<std::size_t>& given) {
  std::vector<std::size_t> reverse(count);
  std::iota(reverse.rbegin(), reverse.rend(), std::size_t{0});
  if (given.empty()) return reverse;
  if (!std::is_permutation(given.begin(), given.end(), reverse.begin(), reverse.end())) {
    throw std::invalid_argument("[ddp] buckets.order must name each of " + std::to_string(count) +
                                " parameters once");
  }
  return given;
}

class Partition {
 public:
  Partition(std::span<const GradientSpec> gradients, const std::vector<std::size_t>& order)
      : gradients_(gradients), order_(order) {}

  // Nothing is closed below this share of the cap.
  static constexpr std::size_t kNearlyEmpty = 8;

  [[nodiscard]] std::vector<Group> cut(std::size_t cap, std::size_t first_cap) const {
    std::vector<Group> groups;
    std::array<Open, kDTypes> open{};  // by dtype
    for (const std::size_t i : order_) {
      Open& mine = open[static_cast<std::size_t>(gradients_[i].dtype)];
      const std::size_t limit = mine.group == 0 ? first_cap : cap;
      const bool fits =
          mine.size_bytes + bytes(i) <= limit || mine.size_bytes <= limit / kNearlyEmpty;
      if (!mine.is_open || !fits) {
        mine = {true, groups.size(), 0};
        groups.emplace_back();
      }
      mine.size_bytes += bytes(i);
      groups[mine.group].push_back(i);
    }
    if (!order_.empty()) sort_by_completion(groups);
    return groups;
  }

  // Divides the last group so that what is left last is within the cap, or a single gradient,
  // unless the rest would be nearly empty.
  void cut_tail(std::vector<Group>& groups, std::size_t last_cap) const {
    if (groups.empty()) return;
    Group& last = groups.back();
    std::size_t rest_bytes = 0;
    for (const std::size_t i : last) rest_bytes += bytes(i);
    std::size_t tail_bytes = 0;
    auto middle = last.end();
    while (middle != last.begin() &&
           (tail_bytes == 0 || tail_bytes + bytes(*(middle - 1)) <= last_cap)) {
      tail_bytes += bytes(*--middle);
      rest_bytes -= bytes(*middle);
    }
    if (rest_bytes <= last_cap / kNearlyEmpty) return;
    Group tail(middle, last.end());
    last.erase(middle, last.end());
    groups.push_back(std::move(tail));
  }

 private:
  [[nodiscard]] std::size_t bytes(std::size_t i) const {
    return gradients_[i].count * size_of(gradients_[i].dtype);
  }

  // A bucket is launched after those before it, so the one that is full first goes first.
  void sort_by_completion(std::vector<Group>& groups) const {
    std::vector<std::size_t> position(order_.size());
    for (std::size_t at = 0; at < order_.size(); ++at) position[order_[at]] = at;
    std::sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
      return position[a.back()] < position[b.back()];
    });
  }

  static constexpr std::size_t kDTypes = std::size(kAllDTypes);
  // The bucket that gradients of one dtype go to.
  struct Open {
    bool is_open = false;
    std::size_t group = 0;
    std::size_t size_bytes = 0;
  };

  std::span<const GradientSpec> gradients_;
  const std::vector<std::size_t>& order_;
};

std::vector<Group> partition(std::span<const GradientSpec> gradients,
                             const BucketOptions& options) {
  const std::vector<std::size_t> order = ready_order(gradients.size(), options.order);
  const Partition partition(gradients, order);
  const std::size_t wanted = std::min(options.min_buckets, gradients.size());
  std::size_t cap = options.bucket_bytes_cap;
  if (wanted > 0) cap = std::min(cap, total_bytes(gradients) / wanted);
  for (;; cap /= 2) {
    std::vector<Group> groups = partition.cut(cap, std::min(cap, options.first_bucket_bytes_cap));
    partition.cut_tail(groups, std::min(cap, options.last_bucket_bytes_cap));
    if (groups.size() >= wanted || cap == 0) return groups;
  }
}

// The gradients of a bucket behind each other.
BucketSpec place(const Group& group, std::size_t bucket, std::span<const GradientSpec> gradients,
                 std::vector<GradientSlot>& slots) {
  BucketSpec spec{gradients[group[0]].dtype, 0, 0, group};
  const std::size_t unit = kGradientAlignment / size_of(spec.dtype);
  for (const std::size_t i : group) {
    slots[i] = {bucket, round_up(spec.count, unit)};
    spec.count = slots[i].offset + gradients[i].count;
  }
  return spec;
}

}  // namespace

BucketLayout lay_out_buckets(std::span<const GradientSpec> gradients,
                             const BucketOptions& options) {
  BucketLayout layout;
  layout.slots.resize(gradients.size());
  for (const Group& group : partition(gradients, options)) {
    BucketSpec bucket = place(group, layout.buckets.size(), gradients, layout.slots);
    bucket.offset_bytes = layout.size_bytes;
    layout.size_bytes += round_up(bucket.count * size_of(bucket.dtype), kBucketAlignment);
    layout.buckets.push_back(std::move(bucket));
  }
  return layout;
}

}  // namespace ddp
