// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/module.h"
#include "ddp/nn/optim/clip_grad_norm.h"
#include "ddp/nn/optim/optimizer.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// What a DataLoader delivers: `count` samples of this rank, of that epoch.
template <class T>
concept CountedBatch = requires(const T& batch) {
  static_cast<double>(batch.count);
  static_cast<std::int64_t>(batch.epoch);
};

// A number of the step that is averaged over ranks by weight: the mean loss of n samples, weight n.
struct StepMetric {
  Tensor value;  // one element on the device; nobody waits for it
  double weight = 0;
};

// A module whose replicas train together: torch.nn.parallel.DistributedDataParallel for nn::Module.
// The parameters' gradients move into the engine's buckets; each is reported the moment that
// backward has finished it. It is a Module with the other one's parameters, buffers and names
// (nothing like "module." before them), and tells it whether to train.
//
//   DistributedModule model(module, context, group, {.nominal_samples = 64});
//   Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1});
//   const Variable loss = ...;  // mean over the batch of model.forward(...)
//   model.backward(tape, loss, batch);
//   optimizer.step();
//
// The module and the context outlive it. The module's gradients end with this object: it can then
// be trained alone, or be distributed anew.
class DistributedModule final : public Module, public GradientOwner {
 public:
  DistributedModule(Module& module, Context& context, std::shared_ptr<ProcessGroup> group,
                    DdpOptions options);
  ~DistributedModule() override;

  // The module's. In training and with BufferSync::kEveryForward all ranks get rank 0's buffers
  // first; in evaluation ranks need not talk, and may have batches of their own number.
  [[nodiscard]] Variable forward(Tape& tape, const Variable& input) override;

  // One step's backward, with the reductions running beside it, or a part of it: see accumulate()
  // and no_sync(). `loss` is the mean over this rank's samples; with none the step is taken with
  // zeros. Metric i can be read as engine().summary().metrics[i]. std::logic_error if a gradient
  // was not taken by an optimizer, or if the loss depends on a parameter that is not this module's:
  // mostly a child's that was never add()ed; the other ranks then throw PeerError. On return the
  // context's stream is ordered behind the sums. A parameter that no rank used
  // (DdpOptions::unused) has no gradient then.
  //
  // With the loader's batch ranks notice that they are in different epochs (StepOptions::epoch).
  void backward(Tape& tape, const Variable& loss, const StepOptions& step,
                std::span<const StepMetric> metrics = {});
  template <CountedBatch Batch>
  void backward(Tape& tape, const Variable& loss, const Batch& batch,
                std::span<const StepMetric> metrics = {}) {
    const auto samples = static_cast<double>(batch.count);
    backward(tape, loss, StepOptions{.samples = samples, .epoch = batch.epoch}, metrics);
  }
  void backward(Tape& tape, const Variable& loss, double samples,
                std::span<const StepMetric> metrics = {}) {
    backward(tape, loss, StepOptions{.samples = samples}, metrics);
  }

  // The next `passes` backward passes make one step, or those while the guard lives and the first
  // one after it: the last of them reduces. An optimizer steps when is_synchronized().
  void accumulate(int passes) { engine_.accumulate(passes); }
  [[nodiscard]] DistributedDataParallel::NoSync no_sync() { return engine_.no_sync(); }
  [[nodiscard]] bool is_synchronized() const { return engine_.is_synchronized(); }

  // Between backward() and step: has step() scale the mean gradients so that their Euclidean norm
  // is at most `max_norm`. Returns what it is before, a float64 scalar on the device, equal on all
  // ranks, as nn::clip_grad_norm does, which has the details; no host waits for it. It may be a
  // metric of the next backward(). std::logic_error if the gradients have not been reduced.
  Tensor clip_grad_norm(double max_norm);

  // What optimizer.step() does: steps it with the mean gradients, or drops them if
  // engine().should_step() is false. std::logic_error if they have not been reduced, as after a
  // tape's own backward().
  void step(Optimizer& optimizer) override;

  // Gives every rank the buffers of rank 0, which each rank gathers from its own samples: before
  // evaluating or saving. Collective, between steps.
  void broadcast_buffers() { engine_.broadcast_buffers(context_.stream()); }

  // The means of the metrics over all steps since the last call, and all ranks. The host waits for
  // them.
  [[nodiscard]] StepSummary take_totals() { return engine_.take_totals(); }

  // From now on losses are multiplied by scaler.scale(), and gradients divided by it on their way
  // into the optimizer. A step that overflows on any rank is skipped on all of them, and all halve
  // the scale. The scaler outlives this object. Between steps; std::logic_error unless
  // DdpOptions::non_finite is kSkip.
  void scale_losses(GradScaler& scaler);

  // The wrapped one.
  [[nodiscard]] Module& module() { return module_; }
  // For all else: votes, times, a report.
  [[nodiscard]] DistributedDataParallel& engine() { return engine_; }

 private:
  [[nodiscard]] std::size_t index_of(const Parameter& parameter) const;
  [[noreturn]] void refuse_stranger(const Parameter& parameter) const;
  [[nodiscard]] bool has_gradients() const;
  void take_use_from_engine();
  [[nodiscard]] const double* gradient_scale();

  Module& module_;
  Context& context_;
  bool may_be_unused_;
  bool skips_non_finite_;
  bool is_reduced_ = false;  // what gradients there are
  GradScaler* scaler_ = nullptr;
  Tensor unscale_;                      // with a scaler: gradient_scale() points to it
  std::optional<ClippedNorm> clipped_;  // until step()
  DistributedDataParallel engine_;
  // By address: side by side in memory, since it is looked into when the caches hold other things.
  std::vector<std::pair<const Parameter*, std::size_t>> indices_;
};

}  // namespace ddp::nn
