// SPDX-License-Identifier: MIT
//
// Where each gradient lives. The layout is a pure function of sizes, types and options, so ranks
// with equal models agree without communicating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/base/dtype.h"

namespace ddp {

struct BucketOptions {
  std::size_t bucket_bytes_cap = std::size_t{25} << 20;
  // The first bucket is small, so that communication starts early. The last one is small because no
  // backward is left to hide its reduction.
  std::size_t first_bucket_bytes_cap = std::size_t{1} << 20;
  std::size_t last_bucket_bytes_cap = std::size_t{1} << 20;
  // A bucket holds at most 1/parts of the model and at most a twelfth of what is left of it, for
  // the same two reasons; but it may always be as large as the caps of the first and last bucket
  // allow. With parts = 1, only the caps count.
  std::size_t parts = 32;
  // A model that would get fewer buckets is cut finer if possible, so that reductions can overlap.
  std::size_t min_buckets = 4;
  // Indices of all parameters in the order in which backward finishes their gradients. Empty: the
  // reverse of their registration. DistributedDataParallel::ready_order() returns the actual order.
  std::vector<std::size_t> order = {};
  // If false, no bucket is launched before wait(). This shows what overlap gains.
  bool overlap = true;
};

struct GradientSpec {
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
};

// The place of one gradient.
struct GradientSlot {
  std::size_t bucket = 0;
  std::size_t offset = 0;  // in elements, from the start of the bucket
};

struct BucketSpec {
  DType dtype = DType::kFloat32;
  std::size_t offset_bytes = 0;         // from the start of the flat memory
  std::size_t count = 0;                // elements, including padding between gradients
  std::vector<std::size_t> parameters;  // indices, in the order of their offsets

  [[nodiscard]] std::size_t size_bytes() const { return count * size_of(dtype); }
};

struct BucketLayout {
  std::vector<BucketSpec> buckets;  // in launch order
  std::vector<GradientSlot> slots;  // by index of the parameter
  std::size_t size_bytes = 0;       // of the flat memory
  // Extra elements behind the gradients of the last bucket, which are reduced with it.
  std::size_t tail_offset = 0;
  std::size_t tail_count = 0;

  // The bytes of all buckets together, which a step reduces.
  [[nodiscard]] std::size_t reduced_bytes() const;
};

inline constexpr std::size_t kGradientAlignment = 256;  // bytes; vector loads, cache lines
inline constexpr std::size_t kBucketAlignment = 4096;   // bytes; NCCL's registration

// How gradients are packed into the flat memory.
enum class Packing : std::uint8_t {
  kAligned,  // bucket after bucket, with the alignments above
  kDense,    // in the order of registration, without gaps: a caller's own flat memory
};

// Fills buckets in the order in which backward finishes gradients: options.order, or the reverse of
// the registration, which is close to it. A gradient that would take a bucket over its cap opens
// the next one, unless the bucket is nearly empty (below an eighth of the cap). A bucket has one
// dtype; in a model of several dtypes, one bucket of each is open at a time. Gradients are never
// split. Throws std::invalid_argument if the order is not a permutation. With Packing::kDense also
// if there are several dtypes, a tail, or an order for which some bucket is not contiguous in the
// memory.
[[nodiscard]] BucketLayout lay_out_buckets(std::span<const GradientSpec> gradients,
                                           const BucketOptions& options, std::size_t tail_count = 0,
                                           Packing packing = Packing::kAligned);

}  // namespace ddp
