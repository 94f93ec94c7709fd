// SPDX-License-Identifier: MIT
#include <utility>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/gradient_hook.h"

namespace ddp {
namespace {

class CompressionHook final : public GradientHook {
 public:
  CompressionHook(ProcessGroup& group, const BucketLayout& layout, DType wire_type)
      : group_(group), wire_type_(wire_type), works_(layout.buckets.size()) {
    std::size_t elements = 0;
    for (const BucketSpec& bucket : layout.buckets) {
      offsets_.push_back(elements);
      if (is_compressed(bucket.dtype)) elements += padded(bucket.count);
    }
    memory_ = group.allocate(elements * size_of(wire_type));
    if (wire_type == DType::kFloat16) make_factors();
  }

  std::string name() const override { return "compress_to_" + std::string(to_string(wire_type_)); }

  Work launch(const GradientBucket& bucket, Stream producer) override {
    Buffer operand = bucket.gradients;
    if (is_compressed(operand.dtype)) {
      if (divide_ != nullptr) scale(operand, divide_, producer);
      operand = wire(bucket);
      cast(bucket.gradients, operand, producer);
    }
    return works_[bucket.index] = group_.all_reduce(operand, ReduceOp::kSum, producer);
  }

  void finish(const GradientBucket& bucket, Stream consumer) override {
    works_[bucket.index].wait(consumer);
    if (!is_compressed(bucket.gradients.dtype)) return;
    cast(wire(bucket), bucket.gradients, consumer);
    if (multiply_ != nullptr) scale(bucket.gradients, multiply_, consumer);
  }

 private:
  static bool is_compressed(DType dtype) { return size_of(dtype) > size_of(DType::kFloat16); }

  static std::size_t padded(std::size_t elements) {
    constexpr std::size_t kUnit = kBucketAlignment / size_of(DType::kFloat16);
    return (elements + kUnit - 1) / kUnit * kUnit;
  }

  void make_factors() {
    const bool cuda = group_.device().is_cuda();
    const cu::DeviceGuard guard(group_.device());
    factors_ = cuda ? cu::allocate_pinned(2 * sizeof(double)) : allocate_host(2 * sizeof(double));
    auto* factors = static_cast<double*>(factors_.data());
    factors[0] = 1.0 / group_.world_size();
    factors[1] = group_.world_size();
    divide_ = factors;
    multiply_ = factors + 1;
  }

  [[nodiscard]] Buffer wire(const GradientBucket& bucket) const {
    const Buffer all{memory_.data(), 0, wire_type_, group_.device()};
    return all.slice(offsets_[bucket.index], bucket.gradients.count);
  }

  ProcessGroup& group_;
  DType wire_type_;
  std::vector<Work> works_;           // by bucket
  std::vector<std::size_t> offsets_;  // where each bucket begins in memory_, in elements
  Allocation memory_;
  Allocation factors_;
  const double* divide_ = nullptr;
  const double* multiply_ = nullptr;
};

}  // namespace

std::unique_ptr<GradientHook> compress_to_bfloat16(ProcessGroup& group,
                                                   const BucketLayout& layout) {
  return std::make_unique<CompressionHook>(group, layout, DType::kBFloat16);
}

std::unique_ptr<GradientHook> compress_to_float16(ProcessGroup& group, const BucketLayout& layout) {
  return std::make_unique<CompressionHook>(group, layout, DType::kFloat16);
}

}  // namespace ddp
