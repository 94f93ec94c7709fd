// SPDX-License-Identifier: MIT
#include <vector>

#include "ddp/base/round_up.h"
#include "ddp/buffer_ops/buffer_ops.h"
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
    if (wire_type == DType::kFloat16) divisor_ = group.world_size();
  }

  std::string name() const override { return "compress_to_" + std::string(to_string(wire_type_)); }

  Work launch(const GradientBucket& bucket, Stream producer) override {
    Buffer operand = bucket.gradients;
    if (is_compressed(operand.dtype)) {
      if (divisor_ > 1) scale(operand, 1 / divisor_, producer);
      operand = wire(bucket);
      cast(bucket.gradients, operand, producer);
    }
    return works_[bucket.index] = group_.all_reduce(operand, ReduceOp::kSum, producer);
  }

  void finish(const GradientBucket& bucket, Stream consumer) override {
    works_[bucket.index].wait(consumer);
    if (!is_compressed(bucket.gradients.dtype)) return;
    cast(wire(bucket), bucket.gradients, consumer);
    if (divisor_ > 1) scale(bucket.gradients, divisor_, consumer);
  }

 private:
  static bool is_compressed(DType dtype) { return size_of(dtype) > size_of(DType::kFloat16); }

  static std::size_t padded(std::size_t elements) {
    return round_up(elements, kBucketAlignment / size_of(DType::kFloat16));
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
  double divisor_ = 1;  // gradients travel divided by it
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
