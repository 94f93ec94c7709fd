// SPDX-License-Identifier: MIT
//
// What goes over the wire in place of a bucket's own elements: torch's communication hooks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/bucket_layout.h"

namespace ddp {

struct GradientBucket {
  std::size_t index = 0;  // in launch order
  // This rank's; padding between them is 0. Behind those of the last bucket may lie marks of used
  // parameters, which must stay 0 where they are 0 on all ranks, and differ from 0 elsewhere.
  Buffer gradients;
  std::span<const std::size_t> parameters;
  bool is_last = false;
};

// Turns each bucket into the sum over ranks, or what stands for it. Calls come from one thread, in
// the same order on all ranks, and only where there is more than one.
class GradientHook {
 public:
  virtual ~GradientHook() = default;
  // Ranks whose hooks have different names do not work together.
  [[nodiscard]] virtual std::string name() const = 0;
  // A bucket is full once `producer` has run: starts its collectives and returns the last one. Must
  // not block the host.
  virtual Work launch(const GradientBucket& bucket, Stream producer) = 0;
  // Orders `consumer` behind the result, in bucket.gradients. Every launched bucket comes here, in
  // the same order, when the step is waited for.
  virtual void finish(const GradientBucket& bucket, Stream consumer) = 0;
};

// Makes a hook for a group and the buckets of a model; buffers that it needs in each step are
// allocated here.
using GradientHookFactory =
    std::function<std::unique_ptr<GradientHook>(ProcessGroup&, const BucketLayout&)>;

// Gradients travel as 16-bit floating point: half the bytes of float32. Each rank's are rounded
// once, and summed by the group in that type. float16 divides by the number of ranks before and
// multiplies after, so that sums overflow no earlier than gradients. Buckets of at most 16 bits are
// left as they are.
[[nodiscard]] std::unique_ptr<GradientHook> compress_to_bfloat16(ProcessGroup& group,
                                                                 const BucketLayout& layout);
[[nodiscard]] std::unique_ptr<GradientHook> compress_to_float16(ProcessGroup& group,
                                                                const BucketLayout& layout);

}  // namespace ddp
