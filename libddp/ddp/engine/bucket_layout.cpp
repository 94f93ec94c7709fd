// SPDX-License-Identifier: MIT
#include "ddp/engine/bucket_layout.h"

#include <algorithm>

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

}  // namespace

BucketLayout lay_out_buckets(std::span<const GradientSpec> gradients,
                             const BucketOptions& options) {
  const std::size_t min_buckets = std::max<std::size_t>(options.min_buckets, 1);
  const std::size_t fair_share = total_bytes(gradients) / min_buckets;
  const std::size_t cap = std::min(options.bucket_bytes_cap, fair_share);
  const std::size_t first_cap = std::min(options.first_bucket_bytes_cap, cap);
  BucketLayout layout;
  layout.slots.resize(gradients.size());
  bool open = false;
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const GradientSpec& gradient = gradients[i];
    if (open && layout.buckets.back().dtype != gradient.dtype) open = false;
    if (!open) layout.buckets.push_back({gradient.dtype, 0, 0, {}});
    BucketSpec& bucket = layout.buckets.back();
    const std::size_t element_bytes = size_of(gradient.dtype);
    const std::size_t offset = round_up(bucket.count, kGradientAlignment / element_bytes);
    layout.slots[i] = {layout.buckets.size() - 1, offset};
    bucket.parameters.push_back(i);
    bucket.count = offset + gradient.count;
    open = bucket.count * element_bytes < (layout.buckets.size() == 1 ? first_cap : cap);
  }
  for (BucketSpec& bucket : layout.buckets) {
    bucket.offset_bytes = layout.size_bytes;
    layout.size_bytes += round_up(bucket.count * size_of(bucket.dtype), kBucketAlignment);
  }
  return layout;
}

}  // namespace ddp
