// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/module.h"
#include "ddp/nn/optim/clip_grad_norm.h"
#include "ddp/nn/optim/optimizer.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// A value of the step that is averaged over ranks by weight, such as the mean loss of n samples
// with weight n.
struct StepMetric {
  Tensor value;        // one element on the device; the host does not wait for it
  SampleCount weight;  // must be given; with 0 the value does not count
};

// A module whose replicas train together: torch.nn.parallel.DistributedDataParallel for nn::Module.
// The parameters' gradients move into the engine's buckets; each is reported as soon as backward
// has finished it. It is itself a Module with the wrapped module's parameters, buffers and names
// (without a prefix "module."), and passes train() and eval() on.
//
//   DistributedModule model(module, context, group, {.nominal_samples = 64});
//   Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1});
//   const Variable loss = ...;  // mean over the batch of model.forward(...)
//   model.backward(tape, loss, batch);
//   optimizer.step();
//
// The module and the context must outlive it. The module's gradients end with this object: it can
// then be trained alone, or be distributed anew.
//
// After backward(), Parameter::grad() of a job with several ranks holds a sum over them, whatever
// options.fold_scale says: it becomes the mean when optimizer.step() multiplies it by the scale,
// engine().gradient_scale(). What takes gradients without that scale, as nn::clip_grad_norm() and
// Optimizer::step(nullptr) do, throws std::logic_error.
//
// Parameters that are frozen (Module::set_requires_grad) when it is made are not trained: all ranks
// get rank 0's values, and that is all. To unfreeze some of them later, make a new
// DistributedModule.
class DistributedModule final : public Module, public GradientOwner {
 public:
  // Throws std::invalid_argument for GradientKind::kSum, and if nothing is to be trained.
  DistributedModule(Module& module, Context& context, std::shared_ptr<ProcessGroup> group,
                    DdpOptions options = {});
  ~DistributedModule() override;

  // Runs the module's forward. In training with BufferSync::kEveryForward, all ranks first get rank
  // 0's buffers. In evaluation ranks do not communicate, and may have different numbers of batches.
  [[nodiscard]] Variable forward(Tape& tape, const Variable& input) override;

  // The backward pass of one step, or of a part of it (see accumulate() and no_sync()), with the
  // reductions running beside it. `loss` is the mean over this rank's samples; without samples it
  // may be a constant, and the step is taken with zeros. A rank without samples may even leave out
  // forward(), but not with synchronised batch norms: they exchange sums in forward and backward,
  // so an empty batch must go through both, or all ranks wait until the timeout. Nor may it if a
  // step has several calls of forward(), each of which broadcasts (BufferSync::kEveryForward).
  // Metric i can be read as engine().summary().metrics[i]. std::logic_error if an optimizer has not
  // consumed a gradient, or if the loss depends on a parameter that this object does not train: one
  // of a child that was never registered, or of another DistributedModule, whose module must then
  // be frozen before its forward; the other ranks then throw PeerError. On return the context's
  // stream is ordered behind the sums. A parameter that no rank used (DdpOptions::unused) then has
  // no gradient.
  //
  // With the loader's batch, or step_options() of it, ranks detect that they are in different
  // epochs, read their data in different orders, or read another rank's part of them.
  void backward(Tape& tape, const Variable& loss, const StepOptions& step,
                std::span<const StepMetric> metrics = {});
  template <CountedBatch Batch>
  void backward(Tape& tape, const Variable& loss, const Batch& batch,
                std::span<const StepMetric> metrics = {}) {
    backward(tape, loss, ddp::step_options(batch), metrics);
  }
  void backward(Tape& tape, const Variable& loss, SampleCount samples,
                std::span<const StepMetric> metrics = {}) {
    backward(tape, loss, StepOptions{.samples = samples}, metrics);
  }

  // Takes part in a vote of the next backward(), as DistributedDataParallel::vote does; behind it,
  // engine().agreed() has the result. Throws std::invalid_argument unless slot < kMaxVotes.
  void vote(std::size_t slot, bool in_favour);

  // The next `passes` backward passes, or those while the guard lives and the first one after it,
  // make one step: the last of them reduces. An optimizer steps when is_synchronized().
  void accumulate(int passes) { engine_.accumulate(passes); }
  [[nodiscard]] DistributedDataParallel::NoSync no_sync() { return engine_.no_sync(); }
  [[nodiscard]] bool is_synchronized() const { return engine_.is_synchronized(); }

  // Between backward() and step: makes step() scale the mean gradients so that their Euclidean norm
  // is at most `max_norm`. Returns the norm before scaling, a float64 scalar on the device, equal
  // on all ranks, as nn::clip_grad_norm does, which has the details; the host does not wait for it.
  // It may be a metric of the next backward(). std::logic_error if there are no reduced gradients,
  // as before backward() or after step().
  Tensor clip_grad_norm(double max_norm);

  // What optimizer.step() calls: steps it with the mean gradients, or drops them if
  // engine().should_step() is false. std::logic_error if they have not been reduced, as after a
  // tape's own backward().
  void step(Optimizer& optimizer) override;
  [[nodiscard]] bool has_scale() const override;

  // Copies rank 0's buffers to every rank, since each rank computes them from its own samples. Call
  // it before evaluating or saving. Collective, between steps.
  void broadcast_buffers() { engine_.broadcast_buffers(context_.stream()); }

  // The means of the metrics over all steps since the last call, and over all ranks. The host waits
  // for them.
  [[nodiscard]] StepSummary take_totals() { return engine_.take_totals(); }

  // From now on losses are multiplied by scaler.scale(), and gradients divided by it on their way
  // into the optimizer. A step that overflows on any rank is skipped on all of them, and all halve
  // the scale. If it is the smallest already, rank 0 warns once: no scale will help. The first
  // optimizer's step() updates the scale for the next backward(). The scaler must outlive this
  // object and serve no other. Call this between steps; std::logic_error unless
  // DdpOptions::non_finite is kSkip.
  void scale_losses(GradScaler& scaler);

  // The wrapped module.
  [[nodiscard]] Module& module() { return module_; }
  // For everything else: results of votes, times, a report.
  [[nodiscard]] DistributedDataParallel& engine() { return engine_; }

 private:
  // What is known of gradients that backward() has reduced.
  struct Reduced {
    double loss_scale = 1;
    bool scaler_is_due = false;  // the scaler does not know of them yet
    std::optional<ClippedNorm> clipped = {};
  };

  [[nodiscard]] std::size_t index_of(const Parameter& parameter) const;
  [[nodiscard]] std::string why_not_trained(const Parameter& parameter) const;
  [[noreturn]] void refuse_stranger(const Parameter& parameter) const;
  void broadcast_frozen();
  [[nodiscard]] bool has_gradients() const;
  void take_use_from_engine();
  [[nodiscard]] const double* gradient_scale();
  void drop_untaken();
  void drop_gradients();
  void update_scaler();
  void warn_of_smallest_scale();

  Module& module_;
  Context& context_;
  std::vector<Parameter*> trained_;  // by their index in the engine
  bool may_be_unused_;
  bool skips_non_finite_;
  bool has_begun_forward_ = false;                   // since the last backward()
  std::vector<std::pair<std::size_t, bool>> votes_;  // for the next backward()
  GradScaler* scaler_ = nullptr;
  bool has_warned_ = false;         // of a scale that is the smallest
  Tensor unscale_;                  // used with a scaler: gradient_scale() points to it
  std::optional<Reduced> reduced_;  // nothing while the gradients are this rank's alone, or gone
  DistributedDataParallel engine_;
};

}  // namespace ddp::nn
