// SPDX-License-Identifier: MIT
//
// Where each gradient lives: a pure function of names, sizes and options, so that ranks with equal
// models agree without talking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/base/dtype.h"

namespace ddp {

struct BucketOptions {
  std::size_t bucket_bytes_cap = std::size_t{25} << 20;
  // The first bucket to be reduced is small, so that communication starts early; the last one too,
  // because no backward is left to hide it.
  std::size_t first_bucket_bytes_cap = std::size_t{1} << 20;
  std::size_t last_bucket_bytes_cap = std::size_t{1} << 20;
  // Nothing is sent before the first buckets are full, and what is sent last has no backward beside
  // it. So a bucket holds at most this part of the model (a 32nd), and at most a quarter of
  // what is left, but may always be as large as the first and the last one. 1: the caps alone.
  std::size_t parts = 32;
  // A model of fewer buckets is cut finer if it can be, so that there is something to overlap.
  std::size_t min_buckets = 4;
  // Indices of all parameters in the order in which backward finishes their gradients; empty: the
  // reverse of their registration. DistributedDataParallel::ready_order() tells it.
  std::vector<std::size_t> order = {};
  // Off: no bucket is launched before wait(). For comparisons.
  bool overlap = true;
};

struct GradientSpec {
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
};

// One gradient's place.
struct GradientSlot {
  std::size_t bucket = 0;
  std::size_t offset = 0;  // elements from the bucket's begin
};

struct BucketSpec {
  DType dtype = DType::kFloat32;
  std::size_t offset_bytes = 0;         // from the begin of the flat memory
  std::size_t count = 0;                // elements, padding between gradients included
  std::vector<std::size_t> parameters;  // indices, in the order of their place
};

struct BucketLayout {
  std::vector<BucketSpec> buckets;  // in launch order
  std::vector<GradientSlot> slots;  // by parameter
  std::size_t size_bytes = 0;       // of the flat memory
  // Elements behind the gradients of the last bucket, which are reduced with them.
  std::size_t tail_offset = 0;
  std::size_t tail_count = 0;
};

inline constexpr std::size_t kGradientAlignment = 256;  // bytes; vector loads, cache lines
inline constexpr std::size_t kBucketAlignment = 4096;   // bytes; NCCL's registration

// How gradients lie in the flat memory.
enum class Packing : std::uint8_t {
  kAligned,  // bucket behind bucket, at the alignments above
  kDense,    // in the order of registration, without gaps, as in a caller's own flat memory
};

// Buckets follow the order in which backward finishes gradients: options.order, or the reverse of
// registration, which comes close to it. A gradient that would take a bucket over its cap opens the
// next one, unless the bucket is nearly empty (below an eighth of the cap). A bucket has one dtype;
// in a model of several, each has a bucket open at a time. Gradients are never divided.
// std::invalid_argument if the order is no permutation, or if gradients that are packed densely
// have several dtypes, a tail, or an order by which some bucket is no single piece of the memory.
[[nodiscard]] BucketLayout lay_out_buckets(std::span<const GradientSpec> gradients,
                                           const BucketOptions& options, std::size_t tail_count = 0,
                                           Packing packing = Packing::kAligned);

}  // namespace ddp
