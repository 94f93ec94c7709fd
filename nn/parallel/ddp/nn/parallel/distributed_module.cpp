// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/distributed_module.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/equal_on_all_ranks.h"

namespace ddp::nn {
namespace {

std::vector<Parameter*> unfrozen(const Module& module) {
  std::vector<Parameter*> found;
  std::ranges::copy_if(module.parameters(), std::back_inserter(found), &Parameter::requires_grad);
  if (found.empty() && !module.parameters().empty()) {
    throw std::invalid_argument(
        "[nn] a DistributedModule has nothing to train: all parameters of the module are frozen "
        "(set_requires_grad(false))");
  }
  return found;
}

std::vector<ddp::Parameter> describe(std::span<Parameter* const> trained) {
  std::vector<ddp::Parameter> parameters;
  for (const Parameter* parameter : trained) {
    const Tensor& value = parameter->value();
    const auto sizes = value.shape().sizes();
    parameters.push_back({parameter->name(), {sizes.begin(), sizes.end()}, value.buffer()});
  }
  return parameters;
}

void check_equal_frozen(ProcessGroup& group, std::span<Parameter* const> parameters) {
  std::vector<std::string> frozen;
  for (const Parameter* parameter : parameters) {
    if (parameter->requires_grad()) continue;
    const Tensor& value = parameter->value();
    frozen.push_back("'" + parameter->name() + "' " + std::string(to_string(value.buffer().dtype)) +
                     to_string(value.shape()));
  }
  check_equal_on_all_ranks(group, "[nn] models", named_elements("frozen parameter", frozen));
}

// Rank 0's values are about to be sent, so they must have been written.
std::shared_ptr<ProcessGroup> after(const Context& context, std::shared_ptr<ProcessGroup> group) {
  context.synchronize();
  return group;
}

void check_vote_slot(std::size_t slot) {
  if (slot < kMaxVotes) return;
  throw std::invalid_argument("[nn] vote slot " + std::to_string(slot) + " is not below " +
                              std::to_string(kMaxVotes));
}

// As the engine does, but before the step begins.
void check_metrics(std::span<const StepMetric> metrics, Device device) {
  if (metrics.size() > kMaxMetrics) {
    throw std::invalid_argument("[nn] backward() got " + std::to_string(metrics.size()) +
                                " metrics, but a step has at most " + std::to_string(kMaxMetrics));
  }
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const Buffer& value = metrics[i].value.buffer();
    const double weight = metrics[i].weight;
    const bool is_one = value.count == 1 && value.data != nullptr && value.device == device;
    if (weight == 0 || (weight > 0 && std::isfinite(weight) && is_one)) continue;
    throw std::invalid_argument("[nn] metric " + std::to_string(i) + " is " + to_string(value) +
                                " with a weight of " + std::to_string(weight) +
                                ", expected one element on " + to_string(device) +
                                " and a weight that is finite and not negative");
  }
}

// fold_scale: the caller's optimizer applies the scale, which saves a pass over the gradients.
// backward() applies the factor, so the warning about a forgotten factor is not needed.
DdpOptions with_module(const Module& module, DdpOptions options) {
  if (options.gradient_kind == GradientKind::kSum) {
    throw std::invalid_argument(
        "[nn] gradient_kind = kSum: a DistributedModule's backward() takes the mean loss, so "
        "divide a sum by the number of samples, and leave gradient_kind at kMean");
  }
  options.fold_scale = true;
  if (options.nominal_samples == 0) options.nominal_samples = 1;
  for (const NamedTensor& buffer : module.buffers()) {
    options.buffers.push_back({buffer.name, buffer.value.buffer()});
  }
  return options;
}

}  // namespace

DistributedModule::DistributedModule(Module& module, Context& context,
                                     std::shared_ptr<ProcessGroup> group, DdpOptions options)
    : module_(module),
      context_(context),
      trained_(unfrozen(module)),
      may_be_unused_(options.unused != UnusedParameters::kError),
      skips_non_finite_(options.non_finite == NonFinite::kSkip),
      engine_(after(context, std::move(group)), describe(trained_),
              with_module(module, std::move(options))) {
  register_module(module);
  broadcast_frozen();  // may throw, so it comes before parameters refer to this object
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    trained_[i]->bind_grad(engine_.gradient(i), context.stream(), this, i);
  }
}

// Once, unlike buffers: nobody changes them. The engine knows nothing of them, so their names and
// shapes are compared here.
void DistributedModule::broadcast_frozen() {
  check_equal_frozen(engine_.group(), parameters());
  for (const Parameter* parameter : parameters()) {
    if (parameter->requires_grad()) continue;
    engine_.group()
        .broadcast(parameter->value().buffer(), /*root=*/0, context_.stream())
        .wait(context_.stream());
  }
}

DistributedModule::~DistributedModule() {
  for (Parameter* parameter : trained_) parameter->unbind_grad(*this);
}

std::size_t DistributedModule::index_of(const Parameter& parameter) const {
  if (parameter.grad_owner() != this) refuse_stranger(parameter);
  return parameter.grad_index();
}

std::string DistributedModule::why_not_trained(const Parameter& parameter) const {
  if (std::ranges::count(trained_, &parameter) > 0) {
    return "now belongs to the DistributedModule that was made of its module last: train that one";
  }
  if (parameter.grad_owner() != nullptr) {
    return "is of another DistributedModule: to train this one alone, call "
           "set_requires_grad(false) on the other module before its forward; to train both, put "
           "one DistributedModule around both";
  }
  if (std::ranges::count(parameters(), &parameter) > 0) {
    return "was frozen when the DistributedModule was made: make a new one after "
           "set_requires_grad(true)";
  }
  return "belongs to no registered module: call register_module(child) in the constructor of the "
         "module that has it as a member";
}

// The other ranks wait for this rank's buckets, so it must also break the group.
void DistributedModule::refuse_stranger(const Parameter& parameter) const {
  const std::string text = "[nn] parameter '" + parameter.name() + "' (shape " +
                           to_string(parameter.value().shape()) + ") took part in forward, but " +
                           why_not_trained(parameter);
  engine_.group().abort(text);
  throw std::logic_error(text);
}

Variable DistributedModule::forward(Tape& tape, const Variable& input) {
  if (module_.is_training()) engine_.begin_forward(context_.stream());
  has_begun_forward_ = module_.is_training();
  return module_.forward(tape, input);
}

void DistributedModule::backward(Tape& tape, const Variable& loss, const StepOptions& step,
                                 std::span<const StepMetric> metrics) {
  drop_untaken();
  for (const Parameter* parameter : trained_) {
    if (engine_.is_synchronized() && parameter->has_grad()) {
      throw std::logic_error("[ddp] parameter '" + parameter->name() +
                             "' still has the gradient of the last step: step the optimizer after "
                             "each backward; freeze what no optimizer has (set_requires_grad) "
                             "before the DistributedModule is made");
    }
  }
  // Without samples there may be no forward pass either (unless batch norms are synchronised).
  const bool has_backward = step.samples > 0 || !loss.is_constant();
  if (has_backward) tape.check_loss(loss);
  check_metrics(metrics, context_.device());
  const bool had_forward = std::exchange(has_begun_forward_, false);
  if (!has_backward && !had_forward && module_.is_training()) {
    engine_.begin_forward(context_.stream());  // as the other ranks have done
  }
  reduced_.reset();
  const double loss_scale = scaler_ == nullptr ? 1 : scaler_->scale();
  const double factor = engine_.begin_step(step) * loss_scale;
  for (const auto& [slot, in_favour] : std::exchange(votes_, {})) engine_.vote(slot, in_favour);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    engine_.record_metric(i, metrics[i].value.buffer(), metrics[i].weight);
  }
  if (has_backward) {
    tape.backward(loss, {.seed = factor, .on_grad_ready = [this](Parameter& parameter) {
                           engine_.mark_ready(index_of(parameter), context_.stream());
                         }});
  } else {
    tape.clear();
  }
  engine_.wait(context_.stream());
  if (!engine_.is_synchronized()) return;
  if (may_be_unused_ || step.samples == 0) take_use_from_engine();
  reduced_ = {.loss_scale = loss_scale, .scaler_is_due = scaler_ != nullptr};
}

void DistributedModule::vote(std::size_t slot, bool in_favour) {
  check_vote_slot(slot);
  votes_.emplace_back(slot, in_favour);
}

// Of gradients that were not reduced, those of a world of one are what they seem.
bool DistributedModule::has_scale() const {
  if (scaler_ != nullptr) return true;
  if (!reduced_ || !engine_.is_synchronized()) return engine_.group().world_size() > 1;
  return engine_.gradient_scale() != nullptr;
}

bool DistributedModule::has_gradients() const {
  return std::ranges::any_of(trained_, &Parameter::has_grad);
}

// Whether a parameter has a gradient depends on all ranks, not only on this one's backward.
void DistributedModule::take_use_from_engine() {
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    engine_.is_used(i) ? trained_[i]->mark_grad_written() : trained_[i]->clear_grad();
  }
}

Tensor DistributedModule::clip_grad_norm(double max_norm) {
  if (!reduced_ && engine_.is_synchronized()) {
    throw std::logic_error(
        "[ddp] clip_grad_norm: there are no reduced gradients: call it after backward() and before "
        "the optimizer's step()");
  }
  const double* scale = gradient_scale();  // throws in a pass that does not reduce
  reduced_->clipped = nn::clip_grad_norm(context_, trained_, max_norm, scale);
  return reduced_->clipped->norm;
}

void DistributedModule::step(Optimizer& optimizer) {
  if (!reduced_ && !has_gradients()) return;  // as before the first backward()
  if (!reduced_ && engine_.is_synchronized()) {
    throw std::logic_error(
        "[ddp] the gradients are this rank's alone: DistributedModule's backward() reduces them, "
        "the tape's does not");
  }
  const bool is_clipped = reduced_ && reduced_->clipped;
  const double* scale =
      is_clipped ? reduced_->clipped->grad_scale() : gradient_scale();  // likewise
  if (engine_.should_step()) {
    optimizer.step(scale);
  } else {
    drop_gradients();
  }
  update_scaler();
  if (!has_gradients()) reduced_.reset();  // those left are for another optimizer
}

// A step that must not be taken need not be offered to an optimizer.
void DistributedModule::drop_untaken() {
  if (!reduced_ || !has_gradients() || engine_.should_step()) return;
  drop_gradients();
  update_scaler();
}

void DistributedModule::drop_gradients() {
  for (Parameter* parameter : trained_) parameter->clear_grad();
}

// Once for each step that was taken or has overflowed.
void DistributedModule::update_scaler() {
  const bool has_overflowed = !engine_.is_finite();
  const bool is_due = std::exchange(reduced_->scaler_is_due, false);
  if (!is_due || !(has_overflowed || engine_.should_step())) return;
  if (has_overflowed) warn_of_smallest_scale();
  scaler_->update(has_overflowed);
}

void DistributedModule::warn_of_smallest_scale() {
  if (!scaler_->is_smallest() || std::exchange(has_warned_, true)) return;
  if (engine_.group().rank() != 0) return;  // all ranks skip the same steps
  logging::warning(
      "[ddp] the gradients are not finite with the smallest loss scale either, so float16 is not "
      "the reason: look at the loss, the data or the learning rate");
}

void DistributedModule::scale_losses(GradScaler& scaler) {
  if (!skips_non_finite_) {
    throw std::logic_error("[ddp] scale_losses needs DdpOptions::non_finite = NonFinite::kSkip");
  }
  scaler_ = &scaler;
  unscale_ = Tensor::zeros({}, DType::kFloat64, context_.device());
}

// The factor that turns the reduced gradients into unscaled gradients of the mean loss; null for 1.
const double* DistributedModule::gradient_scale() {
  const double* mean = engine_.gradient_scale();
  if (scaler_ == nullptr) return mean;
  fill(unscale_.buffer(), 1 / reduced_->loss_scale, context_.stream());
  if (mean != nullptr) scale_by_value_at(unscale_.buffer(), mean, context_.stream());
  return static_cast<const double*>(unscale_.buffer().data);
}

}  // namespace ddp::nn
