// SPDX-License-Identifier: MIT
//
// A gradient hook replaces the all_reduce of a bucket, as PyTorch's communication hooks do.
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
  // This rank's gradients; the padding between them is 0. In the last bucket, marks of used
  // parameters may follow. The hook must keep a mark 0 if it is 0 on all ranks, and nonzero
  // otherwise.
  Buffer gradients;
  std::span<const std::size_t> parameters;
  bool is_last = false;
};

// Turns each bucket into the sum over ranks, or a substitute for it. If that is not the same on all
// ranks, as with steps that reduce nothing, DdpOptions::non_finite must be kIgnore and
// fingerprint_every 0, since ranks would decide or be found different. Calls come from one thread,
// in the same order on all ranks, and only if there is more than one rank.
class GradientHook {
 public:
  virtual ~GradientHook() = default;
  // Ranks whose hooks have different names refuse to work together.
  [[nodiscard]] virtual std::string name() const = 0;
  // Called for a full bucket, whose gradients are final once `producer` has run: starts the
  // bucket's collectives and returns the last one, or Work{} if it sends nothing. Must not block
  // the host. It may be of another group, such as a duplicate, which then must live as long as the
  // engine: if an exception destroys the engine within a step, that waits until no operation of the
  // group uses the bucket, or breaks the group.
  virtual Work launch(const GradientBucket& bucket, Stream producer) = 0;
  // Orders `consumer` behind the result in bucket.gradients: waits for what launch() returned (on
  // the CPU, Work::wait blocks), before it reads it or frees what it is sent from. Called from the
  // wait of the step, for every launched bucket, in launch order.
  virtual void finish(const GradientBucket& bucket, Stream consumer) = 0;
};

// Makes a hook for a group and the buckets of a model. The hook should allocate here what each step
// needs. If it returns null, buckets are reduced as without a hook.
using GradientHookFactory =
    std::function<std::unique_ptr<GradientHook>(ProcessGroup&, const BucketLayout&)>;

// Sends gradients as 16-bit floating point, half the bytes of float32. Each rank rounds its
// gradients once; the group sums them in the 16-bit type. float16 divides by the number of ranks
// before and multiplies after, so that a sum overflows only if the gradients do (but for rounding).
// Buckets whose elements have at most 16 bits are sent as they are.
[[nodiscard]] std::unique_ptr<GradientHook> compress_to_bfloat16(ProcessGroup& group,
                                                                 const BucketLayout& layout);
[[nodiscard]] std::unique_ptr<GradientHook> compress_to_float16(ProcessGroup& group,
                                                                const BucketLayout& layout);

}  // namespace ddp
