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

// A parameter of the caller's model. `value` is the caller's memory. `grad` may be left without
// memory: the gradient then lives in a bucket and is written there, at gradient(i), without a copy.
// With memory of the caller's, it is copied into the bucket and back in each step.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  Buffer value;
  Buffer grad = {};
};

// State that is no parameter, such as batch-norm statistics: the caller's memory.
struct ModelBuffer {
  std::string name;
  Buffer value;
};

// What the caller's backward gives for its n samples.
enum class GradientKind : std::uint8_t {
  kMean,  // the gradient of the mean loss, times what begin_step() returned
  kSum,   // the gradient of the sum of the losses
};

// What becomes of a parameter for which this rank's backward gives no gradient.
enum class UnusedParameters : std::uint8_t {
  kError,  // an error in the same step, on all ranks, that names it
  // This rank adds zeros; is_used() tells of parameters that no rank used, which an optimizer
  // should leave alone. That travels behind the gradients of the last bucket.
  kZero,
  // Every step uses the same parameters equally often, which the first backward pass finds out;
  // shared ones are ready at their last use. That pass reduces without overlap. A later step that
  // differs is an error that names the parameter.
  kStatic,
};

// When all ranks get rank 0's buffers, besides at construction.
enum class BufferSync : std::uint8_t {
  kOnDemand,      // broadcast_buffers(): call it before evaluating or saving
  kEveryForward,  // and begin_forward() as well
  kNever,
};

// What is done about gradients that are infinite or no numbers, looked for in what was reduced: on
// CUDA the host waits for that in each step.
enum class NonFinite : std::uint8_t {
  kIgnore,  // not looked for
  kSkip,    // should_step() is false, on all ranks alike
  kStop,    // wait() throws NonFiniteError, on all ranks alike
};

struct DdpOptions {
  BucketOptions buckets = {};
  // n_ref: the samples that a rank usually has in a step, its batch size; equal on all ranks. Then
  // the factor that begin_step() returns is 1 in all steps but those of another size. Left at 0 it
  // is 1, and the factor the number of samples: whoever does not multiply the mean loss by it gets
  // gradients that are so many times too small, of which a warning tells in the first such step.
  double nominal_samples = 0;
  GradientKind gradient_kind = GradientKind::kMean;
  // For callers who cannot scale their loss: begin_step() returns 1, and buckets are multiplied by
  // the factor instead, which costs a pass over them in steps where it is not 1. Not together with
  // accumulation.
  bool scale_at_ready = false;
  // On: wait() leaves the gradients as sums; whoever reads them multiplies by *gradient_scale(),
  // as optimizer kernels do without a pass of their own.
  bool fold_scale = false;
  UnusedParameters unused = UnusedParameters::kError;
  // Broadcast from rank 0 at construction and as buffer_sync says.
  std::vector<ModelBuffer> buffers = {};
  BufferSync buffer_sync = BufferSync::kOnDemand;
  // The caller's memory for the gradients of all parameters, one behind the other in the order of
  // registration, as trainers of raw arrays have it. The buckets are pieces of it: nothing is
  // copied, and no memory is allocated for them. All parameters have its dtype, none has a `grad`
  // of its own, and `unused` is kError. For the shm backend take it from ProcessGroup::allocate().
  Buffer flat_gradients = {};
  // What travels in place of the gradients, such as compress_to_bfloat16; the same on all ranks.
  GradientHookFactory hook = {};
  // Every so many steps the ranks compare fingerprints of their parameters. If these differ, all
  // ranks throw a MismatchError that names the step, the parameter and the rank. 0: never.
  int fingerprint_every = 100;
  NonFinite non_finite = NonFinite::kIgnore;
  // On: each gradient is looked at before it is reduced, so that an error or a warning names the
  // rank. Otherwise that is done for the one step that follows a skipped one.
  bool scan_gradients = false;
  // On: the times of each step are taken, for times().
  bool record_times = false;
};

// How many samples there are, or what they weigh together. Any number converts to it, so that
// `.samples = batch.size()` is no narrowing conversion.
class SampleCount {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr SampleCount(Number count) : count_(static_cast<double>(count)) {}  // NOLINT: converts
  constexpr operator double() const { return count_; }                         // NOLINT: converts

 private:
  double count_;
};

struct StepOptions {
  SampleCount samples = 1;  // of this rank in this step; 0 is allowed
  // Which pass over its data this rank is in. Ranks in different ones would train on the same
  // samples, since each epoch deals them out anew: MismatchError that names the ranks, on all of
  // them. Left alone, nothing is compared.
  std::int64_t epoch = 0;
  // False: this rank's data have run out, and it goes on with empty batches until all ranks' have;
  // see is_over().
  bool is_active = true;
  bool asks_to_stop = false;  // see stop_requested() and SignalGuard
  double data_seconds = 0;    // that this rank waited for its batch; for the report
};

}  // namespace ddp
