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
#include "ddp/engine/step_statistics.h"
#include "ddp/engine/step_summary.h"
#include "ddp/engine/step_times.h"

namespace ddp {

// Keeps the replicas of a model equal: broadcasts rank 0's values at construction, and in each step
// turns every gradient into the mean over the global batch, weighted by what each rank really
// processed, while backward still runs.
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
// Why the factor: a rank does not know the others' counts when its backward starts. With n samples
// it scales its mean gradient by n / n_ref; wait() divides the sum by (sum of n) / n_ref. With
// nominal batches the factor is 1. In a world of one it always is, and nothing runs at all (but for
// sums, which are divided by n).
//
// A rank with n = 0 contributes zeros whatever its gradients hold, and may skip mark_ready.
//
// A step may consist of several backward passes over micro-batches, of which the last one reduces
// (see accumulate() and no_sync()). Each is a begin_step, backward, wait of its own with its own n;
// all but the first add to gradient(i), and with n = 0 leave it alone. The mean is over the samples
// of all of them.
//
// Parameters' values must be there at construction (on CUDA: synchronise what writes them). After
// an exception in the middle of a step the object can only be destroyed.
//
// All ranks construct it together, with equal models: otherwise MismatchError on all of them, which
// names the first parameter that differs. std::invalid_argument if two parameters, or two buffers,
// have one name, or if there is no group. Not thread-safe; mark_ready may come from any thread, one
// call at a time.
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
  // Where gradient i is to be written and is found after wait(). The address never changes. Here
  // and below an i that no parameter has is std::invalid_argument.
  [[nodiscard]] Buffer gradient(std::size_t i) const;
  [[nodiscard]] const BucketLayout& layout() const;

  // The next `passes` backward passes make one step: the last of them reduces. std::logic_error
  // in the middle of a step.
  void accumulate(int passes);

  // While the guard lives, wait() reduces nothing. It is read by begin_step.
  class [[nodiscard]] NoSync {
   public:
    NoSync(NoSync&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DistributedDataParallel;
    explicit NoSync(DistributedDataParallel::Impl* impl) : impl_(impl) {}
    DistributedDataParallel::Impl* impl_;
  };
  NoSync no_sync();

  // False after a wait() that reduced nothing: it is not yet time for the optimizer.
  [[nodiscard]] bool is_synchronized() const;

  // What the following calls tell is the same on all ranks, and of the step that wait() ended last.
  // On CUDA they block the host until that step's control vector has arrived, which is no stall
  // at the begin of the next step, and throw what is wrong with it: MismatchError if ranks made
  // different numbers of passes.

  // It is time for the optimizer: the gradients are reduced, finite as far as that was looked at,
  // and somebody's.
  [[nodiscard]] bool should_step() const;
  // All ranks' data had run out before this step, in which nothing was left to do. For loaders of
  // unequal lengths:
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
  // Some rank asked to stop in StepOptions.
  [[nodiscard]] bool stop_requested() const;
  // The vote's result: some rank, or every rank, was in favour.
  [[nodiscard]] bool agreed(std::size_t slot, Quorum quorum) const;
  // Some rank's backward gave a gradient for the parameter. Always true unless unused parameters
  // are allowed.
  [[nodiscard]] bool is_used(std::size_t i) const;

  // Opens a step; returns the factor for this rank's mean loss.
  [[nodiscard]] double begin_step(const StepOptions& options = {});

  // Adds a value to a metric (slot < kMaxMetrics) that is averaged over ranks by weight. Between
  // begin_step and the first mark_ready of the step.
  void record_metric(std::size_t slot, double value, SampleCount weight);
  // The same for one element on the group's device, which is read behind the gradients of the first
  // bucket: no host waits for a loss. At most one a slot and step.
  void record_metric(std::size_t slot, const Buffer& value, SampleCount weight);

  // Takes part in a vote of all ranks (slot < kMaxVotes; not voting is voting no), for decisions
  // that would take them apart if each made its own. When record_metric may be called.
  void vote(std::size_t slot, bool in_favour);

  // Gradient i is final once the work that `stream` holds now has run. A second time in a pass is
  // an error, unless learned as DdpOptions::unused says: std::logic_error that names the parameter,
  // and PeerError with the same text on the other ranks.
  void mark_ready(std::size_t i, Stream stream = {});

  // Orders `stream` behind the reduced gradients; does not block the host on CUDA. If gradients
  // were not marked ready although samples > 0, and DdpOptions::unused does not allow that, throws
  // std::logic_error, naming them, and PeerError with the same text on the other ranks. In a pass
  // that reduces later nothing happens to the gradients, but that those without any so far become
  // 0.
  void wait(Stream stream = {});

  // Gives every rank the buffers of rank 0, which each rank gathers from its own samples: before
  // evaluating or saving. Collective, between steps; orders `stream` behind it.
  void broadcast_buffers(Stream stream = {});
  // Before the forward pass of each training step: does so with BufferSync::kEveryForward.
  void begin_forward(Stream stream = {});

  // What sums must be multiplied by to be means, with fold_scale: on the group's device, valid
  // behind wait(). Null if there is nothing to do: without fold_scale, or for the mean of one pass
  // in a world of one. std::logic_error unless is_synchronized(): an optimizer must not step with
  // gradients that differ between ranks.
  [[nodiscard]] const double* gradient_scale() const;

  // The step that wait() ended last, summed over ranks; zeros before the first. On CUDA this blocks
  // the host until that step's control vector has arrived.
  [[nodiscard]] StepSummary summary();

  // All steps since the last call of this, or since construction, together: the mean loss of an
  // epoch, say. Blocks as summary() does.
  [[nodiscard]] StepSummary take_totals();

  // When things happened in the step that wait() ended last; call it before the next begin_step().
  // On CUDA this blocks the host until that step is reduced. std::logic_error without record_times.
  [[nodiscard]] StepTimes times();

  // The parameters in the order in which their gradients became ready in the last pass, as
  // BucketOptions::order takes it; those that were not are missing.
  [[nodiscard]] std::span<const std::size_t> ready_order() const;
  // A sentence if that order costs overlap, with the one to pass instead; else empty.
  [[nodiscard]] std::string order_advice() const;

  struct Statistics {
    std::uint64_t steps = 0;
    std::uint64_t passes = 0;  // backward passes: more than steps with accumulation
    std::uint64_t bucket_launches = 0;
    std::uint64_t skipped_steps = 0;    // whose gradients were not finite
    std::uint64_t gradient_copies = 0;  // into and out of buckets, for callers' own memory
  };
  [[nodiscard]] Statistics statistics() const;

  // What steps have cost so far, and which ranks are late; all ranks see about the same. Bandwidth
  // and overlap need record_times, and are told on the CPU only.
  [[nodiscard]] const StepStatistics& step_statistics() const;
  // A few lines on what steps cost, what to do about it, which of them were not counted, and how
  // many were skipped, to be printed at the end.
  [[nodiscard]] std::string report() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
