// SPDX-License-Identifier: MIT
#include "ddp/engine/bucket_layout.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "ddp/base/round_up.h"

namespace ddp {
namespace {

std::size_t total_bytes(std::span<const GradientSpec> gradients) {
  std::size_t total = 0;
  for (const GradientSpec& gradient : gradients) {
    total += gradient.count * size_of(gradient.dtype);
  }
  return total;
}

using Group = std::vector<std::size_t>;  // gradients of one bucket, by index

// The indices of the parameters in the order in which their gradients become ready.
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

// A bucket may hold 1/kTaper of what is left of the model. The caps of consecutive buckets then
// differ by at most that part, so a link that needs no more than 1 - 1/kTaper of backward's time
// has reduced each bucket before the next one is full: only the last one is exposed.
constexpr std::size_t kTaper = 12;

// How many bytes a bucket may hold.
struct Caps {
  std::size_t first;
  std::size_t usual;
  std::size_t last;
  bool tapers;  // the caps shrink from `usual` to `last` towards the end of the model

  [[nodiscard]] std::size_t of(std::size_t bucket, std::size_t left_bytes) const {
    if (bucket == 0) return first;
    return tapers ? std::clamp(left_bytes / kTaper, last, usual) : usual;
  }
};

Caps caps_within(std::size_t usual, const BucketOptions& options) {
  return {std::min(usual, options.first_bucket_bytes_cap), usual,
          std::min(usual, options.last_bucket_bytes_cap), options.parts > 1};
}

class Partition {
 public:
  Partition(std::span<const GradientSpec> gradients, const std::vector<std::size_t>& order)
      : gradients_(gradients), order_(order), position_(order.size()) {
    for (std::size_t at = 0; at < order.size(); ++at) position_[order[at]] = at;
  }

  // A bucket that holds at most 1/kNearlyEmpty of its cap stays open.
  static constexpr std::size_t kNearlyEmpty = 8;

  [[nodiscard]] std::vector<Group> cut(const Caps& caps) const {
    std::vector<Group> groups;
    std::array<Open, kDTypes> open{};  // by dtype
    std::size_t left_bytes = total_bytes(gradients_);
    for (const std::size_t i : order_) {
      Open& mine = open[static_cast<std::size_t>(gradients_[i].dtype)];
      const bool fits =
          mine.size_bytes + bytes(i) <= mine.limit || mine.size_bytes <= mine.limit / kNearlyEmpty;
      if (!mine.is_open || !fits) {
        mine = {true, groups.size(), 0, caps.of(groups.size(), left_bytes)};
        groups.emplace_back();
      }
      mine.size_bytes += bytes(i);
      left_bytes -= bytes(i);
      groups[mine.group].push_back(i);
    }
    sort_by_completion(groups);
    return groups;
  }

  // Splits the last group, so that the group that is reduced last holds at most last_cap bytes or a
  // single gradient. Does not split if the other part would be nearly empty.
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
    sort_by_completion(groups);  // a group of another dtype may be complete between the two
  }

 private:
  [[nodiscard]] std::size_t bytes(std::size_t i) const {
    return gradients_[i].count * size_of(gradients_[i].dtype);
  }

  // Buckets are launched in order, so the group whose last gradient is ready first comes first.
  void sort_by_completion(std::vector<Group>& groups) const {
    std::ranges::sort(groups, {}, [&](const Group& group) { return position_[group.back()]; });
  }

  static constexpr std::size_t kDTypes = std::size(kAllDTypes);
  // The open bucket of one dtype.
  struct Open {
    bool is_open = false;
    std::size_t group = 0;
    std::size_t size_bytes = 0;
    std::size_t limit = 0;  // of size_bytes
  };

  std::span<const GradientSpec> gradients_;
  const std::vector<std::size_t>& order_;
  std::vector<std::size_t> position_;  // in order_, by gradient
};

// The cap of a bucket that is neither the first nor among the last.
std::size_t usual_cap(std::size_t model_bytes, const BucketOptions& options) {
  const std::size_t part = model_bytes / std::max<std::size_t>(options.parts, 1);
  const std::size_t small = std::max(options.first_bucket_bytes_cap, options.last_bucket_bytes_cap);
  return std::min(options.bucket_bytes_cap, std::max(part, small));
}

std::vector<Group> partition(std::span<const GradientSpec> gradients,
                             const BucketOptions& options) {
  const std::vector<std::size_t> order = ready_order(gradients.size(), options.order);
  const Partition partition(gradients, order);
  const std::size_t wanted = std::min(options.min_buckets, gradients.size());
  std::size_t cap = usual_cap(total_bytes(gradients), options);
  if (wanted > 0) cap = std::min(cap, total_bytes(gradients) / wanted);
  for (;; cap /= 2) {
    const Caps caps = caps_within(cap, options);
    std::vector<Group> groups = partition.cut(caps);
    partition.cut_tail(groups, caps.last);
    if (groups.size() >= wanted || cap == 0) return groups;
  }
}

// Alignment of a gradient, in elements.
std::size_t alignment_of(DType dtype) { return kGradientAlignment / size_of(dtype); }

// Assigns aligned offsets to the gradients of one bucket.
BucketSpec place(const Group& group, std::size_t bucket, std::span<const GradientSpec> gradients,
                 std::vector<GradientSlot>& slots) {
  BucketSpec spec{gradients[group[0]].dtype, 0, 0, group};
  const std::size_t unit = alignment_of(spec.dtype);
  for (const std::size_t i : group) {
    slots[i] = {bucket, round_up(spec.count, unit)};
    spec.count = slots[i].offset + gradients[i].count;
  }
  return spec;
}

BucketLayout pack_aligned(const std::vector<Group>& groups, std::span<const GradientSpec> gradients,
                          std::size_t tail_count) {
  BucketLayout layout;
  layout.slots.resize(gradients.size());
  for (const Group& group : groups) {
    BucketSpec bucket = place(group, layout.buckets.size(), gradients, layout.slots);
    if (tail_count > 0 && &group == &groups.back()) {
      layout.tail_offset = round_up(bucket.count, alignment_of(bucket.dtype));
      layout.tail_count = tail_count;
      bucket.count = layout.tail_offset + tail_count;
    }
    bucket.offset_bytes = layout.size_bytes;
    layout.size_bytes += round_up(bucket.size_bytes(), kBucketAlignment);
    layout.buckets.push_back(std::move(bucket));
  }
  return layout;
}

void check_dense(std::span<const GradientSpec> gradients, std::size_t tail_count) {
  if (tail_count > 0) {
    throw std::invalid_argument(
        "[ddp] flat_gradients has no room for the marks that unused parameters need: use "
        "UnusedParameters::kError");
  }
  for (const GradientSpec& gradient : gradients) {
    if (gradient.dtype == gradients[0].dtype) continue;
    throw std::invalid_argument("[ddp] flat_gradients needs parameters of one dtype");
  }
}

BucketLayout pack_densely(const std::vector<Group>& groups, std::span<const GradientSpec> gradients,
                          std::size_t tail_count) {
  check_dense(gradients, tail_count);
  std::vector<std::size_t> begins;  // offsets in the flat memory, in elements
  std::size_t end = 0;
  for (const GradientSpec& gradient : gradients) {
    begins.push_back(end);
    end += gradient.count;
  }
  BucketLayout layout;
  layout.slots.resize(gradients.size());
  layout.size_bytes = end * size_of(gradients[0].dtype);
  for (Group group : groups) {
    std::sort(group.begin(), group.end());
    if (group.back() - group.front() + 1 != group.size()) {
      throw std::invalid_argument(
          "[ddp] flat_gradients cannot have this buckets.order: in it, a bucket's gradients do not "
          "lie behind each other");
    }
    const std::size_t begin = begins[group.front()];
    for (const std::size_t i : group) layout.slots[i] = {layout.buckets.size(), begins[i] - begin};
    const DType dtype = gradients[0].dtype;
    const std::size_t count = begins[group.back()] + gradients[group.back()].count - begin;
    layout.buckets.push_back({dtype, begin * size_of(dtype), count, std::move(group)});
  }
  return layout;
}

}  // namespace

std::size_t BucketLayout::reduced_bytes() const {
  std::size_t sum = 0;
  for (const BucketSpec& bucket : buckets) sum += bucket.size_bytes();
  return sum;
}

BucketLayout lay_out_buckets(std::span<const GradientSpec> gradients, const BucketOptions& options,
                             std::size_t tail_count, Packing packing) {
  const std::vector<Group> groups = partition(gradients, options);
  return packing == Packing::kDense ? pack_densely(groups, gradients, tail_count)
                                    : pack_aligned(groups, gradients, tail_count);
}

}  // namespace ddp
