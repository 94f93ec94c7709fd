// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/statistics/step_costs.h"
#include "ddp/engine/statistics/step_summary.h"
#include "ddp/engine/statistics/step_times.h"

namespace ddp {

// Keeps the replicas of a model equal. Broadcasts rank 0's values at construction. In each step it
// turns every gradient into the mean over the global batch, weighted by the number of samples of
// each rank, while backward still runs.
//
//   DistributedDataParallel ddp(group, parameters, {.nominal_samples = 64});
//   for (...) {
//     const double factor = ddp.begin_step({.samples = n});
//     // forward; backward of factor * mean loss, which writes gradient(i), then
//     //   ddp.mark_ready(i, stream) as soon as gradient i is final
//     ddp.wait(stream);
//     // optimizer step on `stream`, with gradient(i)
//   }
//
// Why the factor: a rank does not know the others' batch sizes when its backward starts. With n
// samples it scales its mean gradient by n / n_ref, and wait() divides the sum by (sum of n) /
// n_ref. With batches of the nominal size the factor is 1. In a world of one a step of one pass has
// the factor 1 and nothing is done, except that GradientKind::kSum is divided by n.
//
// A rank that has no samples in a step contributes zeros, whatever its gradients hold. In a pass
// with n = 0, a rank may skip mark_ready.
//
// A step may consist of several backward passes over micro-batches, of which the last one reduces
// (see accumulate() and no_sync()). Each pass has its own begin_step, backward, wait and n; every
// pass after the first adds to gradient(i), or with n = 0 leaves it alone. The mean is over the
// samples of all passes.
//
// Parameters must hold their values at construction (on CUDA: synchronise with what writes them).
// After an exception in the middle of a step the object can only be destroyed.
//
// All ranks construct it together with equal models. If the models differ, all ranks throw a
// MismatchError that names the first parameter that differs. std::invalid_argument if two
// parameters or two buffers have the same name, or if there is no group. Not thread-safe, except
// that mark_ready may come from any thread, one call at a time: a second thread in mark_ready or
// wait gets a std::logic_error.
class DistributedDataParallel {
  class Impl;

 public:
  DistributedDataParallel(std::shared_ptr<ProcessGroup> group, std::vector<Parameter> parameters,
                          DdpOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  [[nodiscard]] ProcessGroup& group() const;
  [[nodiscard]] std::size_t parameter_count() const;
  // Where gradient i must be written, and where it is found after wait(). The address never
  // changes. Here and below, an i that is out of range is std::invalid_argument.
  [[nodiscard]] Buffer gradient(std::size_t i) const;
  [[nodiscard]] const BucketLayout& layout() const;

  // For a training that resumes from a checkpoint: `steps` of its steps were made before, so the
  // next one is step steps + 1 in warnings, errors and diagnoses, and for ddp-launch, which does
  // not restart a job that fails in the same step again and again. The same number on all ranks.
  // Statistics, and checks that are made every so many steps, still count from this engine's first
  // step. std::logic_error after that step has begun, std::invalid_argument for a negative number.
  void continue_after(std::int64_t steps);

  // The next `passes` backward passes make one step: the last of them reduces. std::logic_error
  // in the middle of a step.
  void accumulate(int passes);

  // While the guard lives, wait() does not reduce. begin_step reads it, so create it before. It
  // may outlive this object.
  class [[nodiscard]] NoSync {
   public:
    NoSync(NoSync&& other) noexcept = default;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DistributedDataParallel;
    explicit NoSync(std::weak_ptr<DistributedDataParallel::Impl> impl) : impl_(std::move(impl)) {}
    std::weak_ptr<DistributedDataParallel::Impl> impl_;
  };
  NoSync no_sync();

  // True between steps: after a wait() that reduced (or before the first step) until begin_step().
  // False in a step, also between its passes: it is not yet time for the optimizer.
  [[nodiscard]] bool is_synchronized() const;

  // The following calls return the same on all ranks; they refer to the step that wait() ended
  // last. Unless this rank knows the answer by itself (should_step() if it had samples, is_over()
  // if it had data), they need that step's control vector: on CUDA they block the host until it has
  // arrived (between the next step's forward and its wait(), the device has work meanwhile), and
  // they throw what is wrong with the step: MismatchError if ranks made different numbers of
  // passes.

  // True if the optimizer should step: the gradients are reduced, finite as far as they were
  // checked, and at least one rank had samples. False between the passes that accumulate()
  // announced. std::logic_error between begin_step() and wait(), and after a pass that a no_sync()
  // guard held back, so that a forgotten last pass is noticed.
  [[nodiscard]] bool should_step() const;
  // False if the step is skipped because a gradient is not finite (DdpOptions::non_finite).
  [[nodiscard]] bool is_finite() const;
  // True if all ranks' data had run out before this step, so that the step did nothing. For loaders
  // of unequal lengths:
  //
  //   for (;;) {
  //     batch = loader.next();  // or an empty one, for forward and backward, too
  //     const double factor =
  //         ddp.begin_step({.samples = batch.size(), .is_active = !batch.empty()});
  //     ... backward of factor * mean loss, wait ...
  //     if (ddp.is_over()) break;
  //     optimizer.step();
  //   }
  [[nodiscard]] bool is_over() const;
  // True if some rank asked to stop by StepOptions::asks_to_stop.
  [[nodiscard]] bool stop_requested() const;
  // The result of the vote in `slot`: some rank, or every rank, was in favour.
  [[nodiscard]] bool agreed(std::size_t slot, Quorum quorum) const;
  // True if some rank's backward gave a gradient for parameter i. Always true with
  // UnusedParameters::kError; with kStatic, it is what the first pass with samples has shown.
  [[nodiscard]] bool is_used(std::size_t i) const;

  // Opens a step (or pass) and returns the factor for this rank's mean loss. std::invalid_argument
  // for numbers that are negative or not finite, and if is_active is false although there are
  // samples (the default is 1).
  [[nodiscard]] double begin_step(const StepOptions& options = {});

  // Adds a value to metric `slot` (< kMaxMetrics), which is averaged over ranks by weight. Call it
  // between begin_step and the first mark_ready of a pass; at another time this throws
  // std::logic_error. Throws std::invalid_argument for another slot, and for a weight that is
  // negative or not finite.
  void record_metric(std::size_t slot, double value, SampleCount weight);
  // As above, for one element on the group's device. It is read behind the gradients of the first
  // bucket, so the host does not wait for the loss, and must stay as it is until wait() of this
  // pass. At most once for each slot and pass, and not together with host values: a second value,
  // and one that is not one element of memory on the group's device, throw std::invalid_argument.
  // With weight 0 there need not be a value, as for the loss of an empty batch.
  void record_metric(std::size_t slot, const Buffer& value, SampleCount weight);

  // Takes part in vote `slot` (< kMaxVotes) of all ranks; a rank is in favour if one of its calls
  // in the step was. For decisions on which ranks must agree. May be called when record_metric may.
  // Throws std::invalid_argument for another slot.
  void vote(std::size_t slot, bool in_favour);

  // Gradient i is final once the work that `stream` holds now has run. A second call in a pass is
  // an error unless UnusedParameters::kStatic has learned it: this rank throws std::logic_error
  // that names the parameter, the other ranks PeerError with the same text.
  void mark_ready(std::size_t i, Stream stream = {});

  // Orders `stream` behind the reduced gradients; on CUDA this does not block the host. If
  // gradients were not marked ready although samples > 0 and DdpOptions::unused does not allow
  // that, throws std::logic_error naming them, and PeerError with the same text on the other ranks
  // (on CUDA from wait_host(), or from their next call that waits for the group).
  // In a pass that does not reduce, gradients stay as they are; those that no pass has written yet
  // become 0. The streams that marked gradients are then ordered behind `stream`, so the next pass
  // may add to gradients there; any other stream must be ordered behind it by the caller. If
  // nothing was marked, the host waits instead. `stream` must exist until the next pass has begun.
  void wait(Stream stream = {});
  // Between steps: blocks the host until the gradients of the last pass are reduced, and throws
  // what prevented that, such as the death of a rank. On the CPU wait() has done so. On CUDA call
  // it before you save: the optimizer's kernels also run behind a reduction that was broken off.
  void wait_host() const;

  // Copies rank 0's buffers to all ranks, since each rank computes them from its own samples. Call
  // it before evaluating or saving. Collective, between passes; orders `stream` behind it.
  void broadcast_buffers(Stream stream = {});
  // Call it before the forward pass of each training step: with BufferSync::kEveryForward it
  // broadcasts the buffers.
  void begin_forward(Stream stream = {});

  // With fold_scale: the factor that turns the summed gradients into means, on the group's device,
  // valid after wait(). Null if there is nothing to multiply: without fold_scale, or for the mean
  // of a single pass in a world of one. std::logic_error before the first step and unless
  // is_synchronized(), since an optimizer must not step with gradients that differ between ranks.
  [[nodiscard]] const double* gradient_scale() const;

  // The step that wait() ended last, summed over ranks; zeros before the first step. On CUDA this
  // blocks the host until that step's control vector has arrived.
  [[nodiscard]] StepSummary summary() const;

  // The sum over all steps since the last call, or since construction; for the mean loss of an
  // epoch, for example. Steps that are skipped count, too, so that a NaN stays. Blocks as summary()
  // does.
  [[nodiscard]] StepSummary take_totals();

  // The times of the step that wait() ended last. Call it before the next begin_step(). On CUDA
  // this blocks the host until that step is reduced. std::logic_error without record_times.
  [[nodiscard]] StepTimes times() const;

  // The parameters in the order in which their gradients became ready in the last pass, to be
  // passed as BucketOptions::order. Parameters that were not marked ready are missing.
  [[nodiscard]] std::span<const std::size_t> ready_order() const;
  // If the order of the buckets costs overlap, a sentence that names the order to pass instead;
  // otherwise empty. In that order, parameters that the last pass did not use are the last ones.
  [[nodiscard]] std::string order_advice() const;

  struct Statistics {
    std::uint64_t steps = 0;
    std::uint64_t passes = 0;  // backward passes; with accumulation more than steps
    std::uint64_t bucket_launches = 0;
    std::uint64_t skipped_steps = 0;    // because gradients were not finite
    std::uint64_t gradient_copies = 0;  // between buckets and the caller's own memory
  };
  [[nodiscard]] Statistics statistics() const;

  // What steps have cost so far and which ranks are late; about the same on all ranks. Bandwidth
  // and overlap need record_times.
  [[nodiscard]] StepCosts step_costs() const;
  // A few lines to print at the end: what steps cost, what to do about it, which steps were not
  // counted and how many were skipped.
  [[nodiscard]] std::string report() const;

 private:
  std::shared_ptr<Impl> impl_;  // its only owner
};

}  // namespace ddp
