// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/gradient_hook.h"

namespace ddp {

// A parameter of the model; one that several layers share is given once. `value` is the caller's
// memory, which must stay where it is: the engine reads it again to compare replicas, so do not
// resize or swap such a vector. If `grad` has none, the gradient lives in a bucket: backward writes
// it at gradient(i), and nothing is copied. If `grad` has memory, each step copies it into the
// bucket and back.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  Buffer value;
  Buffer grad = {};
};

// State that is not a parameter, such as batch-norm statistics, in the caller's memory.
struct ModelBuffer {
  std::string name;
  Buffer value;
};

// What the caller's backward computes for its n samples.
enum class GradientKind : std::uint8_t {
  kMean,  // the gradient of the mean loss times the factor from begin_step()
  kSum,   // the gradient of the sum of the losses
};

// What happens to a parameter for which this rank's backward gives no gradient.
enum class UnusedParameters : std::uint8_t {
  kError,  // all ranks throw in the same step; the error names the parameter
  // This rank adds zeros. is_used() tells which parameters some rank used; an optimizer should skip
  // the others. The marks travel behind the gradients of the last bucket.
  kZero,
  // Every step uses the same parameters equally often. The first backward pass learns the counts,
  // and reduces without overlap; after that a shared parameter is ready at its last use. A later
  // step that differs is an error that names the parameter.
  kStatic,
};

// When all ranks get rank 0's buffers, in addition to the broadcast at construction.
enum class BufferSync : std::uint8_t {
  kOnDemand,      // in broadcast_buffers(); call it before evaluating or saving
  kEveryForward,  // in every begin_forward(), and in broadcast_buffers()
  kNever,
};

// What to do about infinite or NaN gradients. The reduced gradients are checked; on CUDA the host
// waits for the result in each step. All ranks decide alike because they have the same sums; a hook
// that leaves ranks with different gradients needs kIgnore.
enum class NonFinite : std::uint8_t {
  kIgnore,  // gradients are not checked
  kSkip,    // should_step() is false on all ranks
  kStop,    // wait() throws NonFiniteError on all ranks
};

// A number of samples, or the sum of their weights. Converts from any number, so that `.samples =
// batch.size()` is not a narrowing conversion.
class SampleCount {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr SampleCount(Number count)  // NOLINT: converts
      : count_(static_cast<double>(count)), is_given_(true) {}
  constexpr operator double() const { return count_; }  // NOLINT: converts

  // One sample, for callers who give no number.
  [[nodiscard]] static constexpr SampleCount one_by_default() { return {}; }
  [[nodiscard]] constexpr bool is_given() const { return is_given_; }

 private:
  constexpr SampleCount() = default;

  double count_ = 1;
  bool is_given_ = false;
};

struct DdpOptions {
  BucketOptions buckets = {};
  // n_ref: the usual batch size of a rank, equal on all ranks. begin_step() returns n / n_ref,
  // which is 1 in every step of that size. 0 means n_ref = 1, so the factor is the number of
  // samples: a caller who does not multiply the mean loss by it gets gradients that are too small
  // by that factor. The first such step logs a warning.
  SampleCount nominal_samples = 0;
  GradientKind gradient_kind = GradientKind::kMean;
  // For callers who cannot scale their loss. begin_step() returns 1, and buckets are multiplied by
  // the factor instead; this costs a pass over them in steps whose factor is not 1. Cannot be
  // combined with accumulation.
  bool scale_at_ready = false;
  // On: wait() leaves the gradients as sums, and the reader multiplies by *gradient_scale(), unless
  // that is null, as in a world of one; equal on all ranks. Optimizer kernels do that without an
  // extra pass. On the CPU there is no such pass without it either, except with a hook: the
  // collectives divide.
  bool fold_scale = false;
  UnusedParameters unused = UnusedParameters::kError;
  // Broadcast from rank 0 at construction and when buffer_sync says so.
  std::vector<ModelBuffer> buffers = {};
  BufferSync buffer_sync = BufferSync::kOnDemand;
  // The caller's memory for the gradients of all parameters, one after the other in the order of
  // registration, as trainers on raw arrays hold it. The buckets are slices of it: no bucket memory
  // is allocated and nothing is copied. All parameters must have its dtype, none may have a `grad`
  // of its own, and `unused` must be kError. For the shm backend, take it from
  // ProcessGroup::allocate(). An engine that is destroyed within a step releases it
  // (ProcessGroup::release()).
  Buffer flat_gradients = {};
  // What travels instead of the gradients, such as compress_to_bfloat16; the same on all ranks.
  GradientHookFactory hook = {};
  // How often, in steps, the ranks compare fingerprints of their parameters; they also do so in
  // steps 2, 4, 8, .... If these differ, all ranks throw a MismatchError that names the step, the
  // parameter and the rank. Rank 0 warns if the first step has changed no parameter. 0: never.
  int fingerprint_every = 100;
  NonFinite non_finite = NonFinite::kIgnore;
  // On: every gradient is checked before it is reduced, so that an error or a warning names the
  // rank. Off: that is done only in the step after a skipped one. With kIgnore nothing is checked.
  bool scan_gradients = false;
  // On: the times of each step are recorded, for times(). At most 1023 buckets.
  bool record_times = false;
};

struct StepOptions {
  // Of this rank in this step; 0 is allowed.
  SampleCount samples = SampleCount::one_by_default();
  // The epoch of this rank's data. Ranks in different epochs would train on the same samples, since
  // each epoch distributes them anew: all ranks throw a MismatchError that names the ranks. If no
  // rank sets it, nothing is compared. Of several passes in a step the last counts.
  std::int64_t epoch = 0;
  // What ranks have in common that read one dataset in one order, each its own part of it, such as
  // EpochPlan::fingerprint(). Ranks with different ones would read some samples twice and others
  // not at all: likewise a MismatchError. 0 is not compared.
  std::uint32_t plan_fingerprint = 0;
  // Which rank's part of how many ranks the data are, as the sampler was told. If it is another
  // rank's of this group, begin_step() throws std::logic_error, and the other ranks throw
  // PeerError. Parts of another number of ranks may be meant, so they are not compared.
  int data_rank = 0;
  int data_world_size = 0;
  // False if this rank's data have run out. It then goes on with empty batches until all ranks'
  // data have run out; see is_over(). A rank with samples is active, also with its last ones.
  bool is_active = true;
  bool asks_to_stop = false;  // see stop_requested() and SignalGuard
  double data_seconds = 0;    // this rank's wait for its batch; for the report
};

// A batch of a DataLoader: `count` samples of this rank, in that epoch and, if it tells, of a plan
// with that fingerprint, `rank`'s part of `world_size` ranks.
template <class T>
concept CountedBatch = requires(const T& batch) {
  static_cast<double>(batch.count);
  static_cast<std::int64_t>(batch.epoch);
};

// The options of a step with this batch: samples, epoch, plan and part of the data. To be completed
// by what else the step has to say, such as asks_to_stop.
template <CountedBatch Batch>
[[nodiscard]] StepOptions step_options(const Batch& batch) {
  StepOptions step{.samples = batch.count, .epoch = batch.epoch};
  if constexpr (requires { batch.plan_fingerprint; })
    step.plan_fingerprint = batch.plan_fingerprint;
  if constexpr (requires { batch.rank, batch.world_size; }) {
    step.data_rank = static_cast<int>(batch.rank);
    step.data_world_size = static_cast<int>(batch.world_size);
  }
  return step;
}

}  // namespace ddp
