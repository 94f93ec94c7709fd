// SPDX-License-Identifier: MIT
//
// DistributedDataParallel for LibTorch, in one header: link ddp::ddp and Torch, and include it.
//
//   const auto group = ddp::init_process_group();
//   ddp_torch::DistributedDataParallel model(group, *net, {.nominal_samples = 64});
//   for (...) {
//     const torch::Tensor loss = torch::nll_loss(net->forward(inputs), labels);  // n samples
//     model.backward(loss, n);  // in place of optimizer.zero_grad(); loss.backward();
//     optimizer.step();
//   }
//
// Has run on the CPU with LibTorch 1.13, 2.6 and 2.15. Has not run on CUDA yet.
#pragma once

#include <ddp/ddp.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ddp_torch {

// libddp's type of the same elements, if it has one.
[[nodiscard]] inline std::optional<ddp::DType> dtype_of(torch::ScalarType type) {
  constexpr std::pair<torch::ScalarType, ddp::DType> types[] = {
      {torch::kFloat32, ddp::DType::kFloat32}, {torch::kFloat64, ddp::DType::kFloat64},
      {torch::kFloat16, ddp::DType::kFloat16}, {torch::kBFloat16, ddp::DType::kBFloat16},
      {torch::kInt32, ddp::DType::kInt32},     {torch::kInt64, ddp::DType::kInt64},
      {torch::kUInt8, ddp::DType::kUInt8}};
  for (const auto& [theirs, ours] : types) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

// A tensor's memory as bytes, whatever its type; otherwise as buffer_of().
[[nodiscard]] inline ddp::Buffer bytes_of(const torch::Tensor& tensor,
                                          const std::string& name = "a tensor") {
  const std::string who = "[ddp_torch] " + name + ", a " + tensor.toString() + ", ";
  if (!tensor.defined() || tensor.layout() != torch::kStrided ||
      !(tensor.is_cpu() || tensor.is_cuda())) {
    throw std::invalid_argument(who + "has no dense memory on the CPU or on CUDA");
  }
  if (!tensor.is_contiguous()) {
    throw std::invalid_argument(who +
                                "is not contiguous: take its contiguous(), and for a parameter or "
                                "buffer x call x.set_data(x.contiguous()) before wrapping");
  }
  const auto device =
      tensor.is_cuda() ? ddp::cuda_device(static_cast<int>(tensor.get_device())) : ddp::kCpuDevice;
  return {tensor.data_ptr(), tensor.nbytes(), ddp::DType::kUInt8, device};
}

// A tensor's memory as a Buffer, which libddp's collectives, datasets and files take. The tensor
// must outlive it. std::invalid_argument, with `name`, if libddp does not support its device,
// layout or dtype.
[[nodiscard]] inline ddp::Buffer buffer_of(const torch::Tensor& tensor,
                                           const std::string& name = "a tensor") {
  ddp::Buffer result = bytes_of(tensor, name);
  const std::optional<ddp::DType> dtype = dtype_of(tensor.scalar_type());
  if (!dtype) {
    throw std::invalid_argument("[ddp_torch] " + name + ", a " + tensor.toString() +
                                ", is of a type that libddp does not have");
  }
  result.count = static_cast<std::size_t>(tensor.numel());
  result.dtype = *dtype;
  return result;
}

// Keeps the replicas of a module equal. The contract of ddp::DistributedDataParallel holds: all
// ranks construct it together, and rank 0's parameters and buffers are copied to all.
//
// The `.grad` of each trainable parameter becomes a view of a bucket. Autograd adds to it in place,
// and a hook then reports the gradient while backward goes on. In a backward() whose batch is not
// of the nominal size, .grad is undefined meanwhile, and the hook multiplies what autograd has made
// and adds it to the view. So a step must begin with zeroed views; begin_step() zeroes them, and
// zero_grad() is not needed. If a view has been replaced (by backward with create_graph, or by
// zero_grad(set_to_none) in the middle of a step), the content is copied into the view, and the
// view is put back.
//
// A step is one backward pass, or as many as engine().accumulate(k) says, or those under a
// no_sync() guard and the next; so backward() twice replaces gradients, and does not add to them.
// Each pass must reach every trainable parameter, and give it a defined gradient. For parameters
// that are not reached, call requires_grad_(false) before, or allow it by DdpOptions::unused: a
// parameter that no rank reaches then has an undefined .grad, which optimizers skip. So have all
// parameters after a pass that does not reduce, and after a step that is skipped or had no samples
// (engine().should_step()).
//
// The module must outlive this object, and keep its parameters and buffers, their memory, and what
// is frozen: load weights before, or copy_() into them, and make a new object after unfreezing.
// Steps throw std::logic_error otherwise; for a new buffer begin_forward() and broadcast_buffers()
// do. Afterwards it has no gradients. One that the caller
// keeps, or a tensor that is a view of it, then gets memory of its own; a pointer into it dangles.
class DistributedDataParallel {
 public:
  // On CUDA, pass the stream that the module runs on (getCurrentCUDAStream().stream()), and
  // construct this object, before the module's first forward pass, while that stream is the current
  // one: autograd adds to a parameter's .grad on the stream that was current when the parameter
  // first took part. The default is the default stream, which is LibTorch's current one unless you
  // changed that.
  DistributedDataParallel(std::shared_ptr<ddp::ProcessGroup> group, torch::nn::Module& module,
                          ddp::DdpOptions options = {}, ddp::Stream stream = {})
      : stream_(stream),
        module_(module),
        buffers_(collect_buffers(module)),
        frozen_(collect_frozen(module)),
        replicas_(collect_trainable(module)),
        parameter_ids_(identities(Kind::kParameters)),
        buffer_ids_(identities(Kind::kBuffers)),
        expects_forward_(options.buffer_sync == ddp::BufferSync::kEveryForward),
        expects_all_(options.unused == ddp::UnusedParameters::kError),
        engine_(group, describe(*group), with_buffers(std::move(options))) {
    broadcast_frozen(*group);
    for (std::size_t i = 0; i < replicas_.size(); ++i) hook_up(i);
  }

  ~DistributedDataParallel() {
    for (Replica& each : replicas_) {
      each.accumulator->del_post_hook(each.hook);
      each.value.mutable_grad().reset();
    }
    try {
      keep_gradients();
    } catch (...) {  // no memory is left for them
    }
  }
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // The whole step except the optimizer's. `loss` is the mean over this rank's samples; with 0
  // samples it is ignored. Otherwise std::invalid_argument, before the step begins, unless it has
  // one element and depends on a trainable parameter.
  void backward(const torch::Tensor& loss, ddp::SampleCount samples) {
    backward(loss, ddp::StepOptions{.samples = samples});
  }
  void backward(const torch::Tensor& loss, const ddp::StepOptions& step) {
    const ddp::Buffer value = step.samples > 0 ? value_of(loss) : ddp::Buffer{};
    try {
      const double factor = begin_step(step);
      if (step.samples > 0) {
        engine_.record_metric(kLoss, value, step.samples);
        run_backward(loss, factor);
      }
      wait();
    } catch (...) {
      abandon_step();
      throw;
    }
  }
  // The loss of the last step, as the mean over the samples of all ranks and passes; 0 before the
  // first step. std::logic_error between the passes of a step, and if the last step was made in
  // parts and did not record it.
  [[nodiscard]] double mean_loss() {
    if (!engine_.is_synchronized()) {
      throw std::logic_error("[ddp_torch] mean_loss(): call it after the last pass of a step");
    }
    const ddp::StepSummary step = engine_.summary();
    if (step.samples > 0 && step.metrics[kLoss].weight == 0) {
      throw std::logic_error(
          "[ddp_torch] mean_loss(): no loss was recorded in the last step: call backward(), or "
          "engine().record_metric(0, ddp_torch::buffer_of(loss), n) after begin_step(n)");
    }
    return step.metrics[kLoss].mean();
  }

  // The same in parts: begin_step() zeroes the gradients and returns the factor for the mean loss.
  // Multiply in float32, since a narrower type rounds the factor; the module's own hooks and
  // functions then see gradients with that factor. For mean_loss(), call
  // engine().record_metric(0, buffer_of(loss), n). Then run your backward pass, then wait(), which
  // leaves the mean over the global batch in every .grad, or none where an optimizer must not step.
  [[nodiscard]] double begin_step(ddp::SampleCount samples) {
    return begin_step(ddp::StepOptions{.samples = samples});
  }
  [[nodiscard]] double begin_step(const ddp::StepOptions& step) {
    check_memory();
    check_for_newcomers(Kind::kParameters);
    check_for_late_freezing();
    check_forward();
    const bool adds_to_last_pass = !engine_.is_synchronized();
    const double factor = engine_.begin_step(step);
    for (Replica& each : replicas_) {
      if (!adds_to_last_pass) each.gradient.zero_();
      each.value.mutable_grad() = each.gradient;
    }
    is_in_step_ = true;
    return factor;
  }
  void wait() {
    is_in_step_ = false;
    engine_.wait(stream_);
    const bool steps = engine_.is_synchronized() && engine_.should_step();
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      if (!steps || !engine_.is_used(i)) replicas_[i].value.mutable_grad().reset();
    }
  }

  // With DdpOptions::buffer_sync = kEveryForward, call it before each forward pass, on all ranks,
  // also those without samples; otherwise the step throws std::logic_error.
  void begin_forward() {
    check_memory();
    check_for_newcomers(Kind::kBuffers);
    engine_.begin_forward(stream_);
    began_forward_ = true;
  }

  // Copies rank 0's batch-norm statistics to all ranks, since each rank computes them from its own
  // samples. Call it before evaluating or saving.
  void broadcast_buffers() {
    check_memory();
    check_for_newcomers(Kind::kBuffers);
    engine_.broadcast_buffers(stream_);
  }

  [[nodiscard]] ddp::DistributedDataParallel& engine() { return engine_; }

 private:
  static constexpr std::size_t kLoss = 0;  // metric slot

  // Owns what adds to a parameter's .grad; its type is not the same in all versions of LibTorch.
  using Accumulator =
      decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));

  struct Replica {
    std::string name;
    torch::Tensor value;
    torch::Tensor memory;         // keeps it while the engine has its address
    torch::Tensor gradient = {};  // the view
    Accumulator accumulator = {};
    std::uintptr_t hook = 0;
  };

  // A buffer, or a parameter that is not trained.
  struct State {
    std::string name;
    torch::Tensor value;
    torch::Tensor memory;
  };

  enum class Kind { kParameters, kBuffers };

  // For record_metric(); throws if backward cannot start from the loss.
  static ddp::Buffer value_of(const torch::Tensor& loss) {
    if (!loss.defined()) {
      throw std::invalid_argument(
          "[ddp_torch] the loss is undefined: a rank without data passes 0 samples");
    }
    if (loss.numel() != 1) {
      throw std::invalid_argument("[ddp_torch] the loss has " + std::to_string(loss.numel()) +
                                  " elements: take their mean over this rank's samples");
    }
    if (!loss.requires_grad()) {
      throw std::invalid_argument(
          "[ddp_torch] the loss depends on no trainable parameter: was it detached, or computed "
          "under a NoGradGuard?");
    }
    return buffer_of(loss, "the loss");
  }

  static std::vector<Replica> collect_trainable(const torch::nn::Module& module) {
    std::vector<Replica> result;
    for (const auto& [name, value] : module.named_parameters().pairs()) {
      const auto is_it = [&v = value](const Replica& each) { return each.value.is_same(v); };
      const bool is_tied = std::any_of(result.begin(), result.end(), is_it);
      if (!value.is_leaf()) {
        throw std::invalid_argument("[ddp_torch] '" + name +
                                    "' is the result of a computation: detach() it before you "
                                    "register it as a parameter");
      }
      if (value.requires_grad() && !is_tied) result.push_back({name, value, value.detach()});
    }
    return result;
  }

  static std::vector<State> collect_buffers(const torch::nn::Module& module) {
    std::vector<State> result;
    for (const auto& [name, value] : module.named_buffers().pairs()) {
      if (value.defined()) result.push_back({name, value, value.detach()});
    }
    return result;
  }

  static std::vector<State> collect_frozen(const torch::nn::Module& module) {
    std::vector<State> result;
    for (const auto& [name, value] : module.named_parameters().pairs()) {
      if (!value.requires_grad()) result.push_back({name, value, value.detach()});
    }
    return result;
  }

  // Of the module's tensors, in its order. Each step compares them, so without names, which would
  // take most of the time.
  [[nodiscard]] std::vector<const void*> identities(Kind kind) const {
    std::vector<const void*> result;
    module_.apply([&](const torch::nn::Module& part) {
      const bool takes_parameters = kind == Kind::kParameters;
      for (const torch::Tensor& each : takes_parameters ? part.parameters(/*recurse=*/false)
                                                        : part.buffers(/*recurse=*/false)) {
        result.push_back(each.unsafeGetTensorImpl());
      }
    });
    return result;
  }

  void check_memory() const {
    const auto check = [](const auto& each) {
      if (each.value.data_ptr() == each.memory.data_ptr()) return;
      throw std::logic_error("[ddp_torch] '" + each.name +
                             "' has other memory than when the module was wrapped, as after "
                             "torch::load, to() or set_data(): do that before, or copy_() into it");
    };
    for (const Replica& each : replicas_) check(each);
    for (const State& each : buffers_) check(each);
    for (const State& each : frozen_) {
      check(each);
      if (!each.value.requires_grad()) continue;
      throw std::logic_error("[ddp_torch] '" + each.name +
                             "' was frozen when the module was wrapped, so that its gradient would "
                             "not be reduced: wrap the module anew after unfreezing");
    }
  }

  // Tensors that the module did not have when it was wrapped.
  void check_for_newcomers(Kind kind) {
    auto& before = kind == Kind::kParameters ? parameter_ids_ : buffer_ids_;
    std::vector<const void*> now = identities(kind);
    if (now == before) return;
    const auto all =
        kind == Kind::kParameters ? module_.named_parameters() : module_.named_buffers();
    for (const auto& [name, value] : all.pairs()) {
      const auto is_among = [&v = value](const auto& known) {
        return std::any_of(known.begin(), known.end(),
                           [&v](const auto& each) { return each.value.is_same(v); });
      };
      if (!value.defined() || is_among(replicas_) || is_among(frozen_) || is_among(buffers_)) {
        continue;
      }
      throw std::logic_error("[ddp_torch] '" + name +
                             "' came after the module was wrapped: wrap the module anew");
    }
    before = std::move(now);  // some have gone
  }

  void check_for_late_freezing() const {
    for (const Replica& each : replicas_) {
      if (!expects_all_ || each.value.requires_grad()) continue;
      throw std::logic_error("[ddp_torch] '" + each.name +
                             "' was frozen after the module was wrapped: wrap the module anew, or "
                             "set DdpOptions::unused = kZero");
    }
  }

  void check_forward() {
    if (expects_forward_ && !began_forward_) {
      throw std::logic_error(
          "[ddp_torch] buffer_sync = kEveryForward: call begin_forward() before each forward pass");
    }
    began_forward_ = false;
  }

  // Of types that libddp does not have, the bytes are copied. Those of a quantized tensor are not
  // all of it.
  static ddp::ModelBuffer model_buffer(const State& state) {
    const bool is_foreign = !dtype_of(state.value.scalar_type()) && !state.value.is_quantized();
    return {state.name, (is_foreign ? bytes_of : buffer_of)(state.value, state.name)};
  }

  [[nodiscard]] std::vector<ddp::Parameter> describe(const ddp::ProcessGroup& group) const {
    if (replicas_.empty()) {
      throw std::invalid_argument(parameter_ids_.empty()
                                      ? "[ddp_torch] the module has no parameters"
                                      : "[ddp_torch] all parameters of the module are frozen");
    }
    if (group.device().is_cuda()) torch::cuda::synchronize(group.device().index);
    std::vector<ddp::Parameter> result;
    for (const Replica& each : replicas_) {
      result.push_back({each.name, each.value.sizes().vec(), buffer_of(each.value, each.name)});
    }
    return result;
  }

  [[nodiscard]] ddp::DdpOptions with_buffers(ddp::DdpOptions options) const {
    if (options.fold_scale) {
      throw std::invalid_argument("[ddp_torch] fold_scale: LibTorch's optimizers read no scale");
    }
    if (options.gradient_kind == ddp::GradientKind::kSum) {
      throw std::invalid_argument(
          "[ddp_torch] gradient_kind = kSum: backward() takes the mean loss, so divide a sum "
          "by the number of samples, and leave gradient_kind at kMean");
    }
    if (options.nominal_samples == 0) {
      check_range();
      options.nominal_samples = 1;  // backward() multiplies
    }
    for (const State& each : buffers_) options.buffers.push_back(model_buffer(each));
    return options;
  }

  // Once, unlike buffers: nobody changes them. The engine knows nothing of them, so their names and
  // shapes are compared here.
  void broadcast_frozen(ddp::ProcessGroup& group) const {
    std::vector<std::string> all;
    for (const State& each : frozen_) {
      all.push_back("'" + each.name + "' " + each.value.toString() + c10::str(each.value.sizes()));
    }
    ddp::check_equal_on_all_ranks(group, "[ddp_torch] models",
                                  ddp::named_elements("frozen parameter", all));
    for (const State& each : frozen_) {
      group.broadcast(model_buffer(each).value, /*root=*/0, stream_).wait(stream_);
    }
  }

  void check_range() const {
    for (const Replica& each : replicas_) {
      if (each.value.scalar_type() != torch::kFloat16) continue;
      throw std::invalid_argument("[ddp_torch] '" + each.name +
                                  "' is float16, whose gradients would be multiplied by the number "
                                  "of samples and overflow above 65504: set DdpOptions::"
                                  "nominal_samples to the usual number of samples of a rank");
    }
  }

  void hook_up(std::size_t i) {
    Replica& each = replicas_[i];
    each.gradient = torch::from_blob(engine_.gradient(i).data, each.value.sizes(),
                                     each.value.options().requires_grad(false));
    each.value.mutable_grad() = each.gradient;
    each.accumulator = torch::autograd::impl::grad_accumulator(each.value);
    const auto after = [this, i](const auto& outputs, const auto& parts) {
      if (parts[0].defined()) on_gradient(i);  // else it is not reached: .grad is as it was
      return outputs;
    };
    each.hook = each.accumulator->add_post_hook(
        std::make_unique<torch::autograd::utils::LambdaPostHook>(after));
  }

  // Backward starts from 1, whatever the factor, and our hooks multiply what it has made. So the
  // module's own hooks and functions see what they would see without this adapter, and a loss of
  // low precision neither rounds the factor nor overflows.
  void run_backward(const torch::Tensor& loss, double factor) {
    if (factor == 1) return loss.backward();
    for (Replica& each : replicas_) each.value.mutable_grad().reset();
    late_factor_ = factor;
    loss.backward();
    late_factor_.reset();
    for (Replica& each : replicas_) each.value.mutable_grad() = each.gradient;
  }

  // Moves the gradients that somebody keeps out of the buckets, which end with the engine.
  void keep_gradients() {
    const torch::NoGradGuard no_graph;
    for (const Replica& each : replicas_) {
      const auto& storage = each.gradient.storage();  // which views share
      if (each.gradient.use_count() == 1 && storage.use_count() == 1) continue;
      const torch::Tensor copy = copy_of_reduced(each.gradient);
      storage.set_data_ptr(copy.storage().set_data_ptr({}));
    }
  }

  [[nodiscard]] torch::Tensor copy_of_reduced(const torch::Tensor& gradient) const {
    if (!gradient.is_cuda() || gradient.numel() == 0) return gradient.clone();
    try {
      engine_.wait_host();
    } catch (...) {  // what the reduction has left is no gradient, but can be read
    }
    torch::Tensor copy = gradient.clone();
    static_cast<void>(copy.view({-1})[0].item());  // waits for it
    return copy;
  }

  // Leaves nothing for an optimizer of a caller that catches the exception.
  void abandon_step() {
    is_in_step_ = false;
    late_factor_.reset();
    for (Replica& each : replicas_) each.value.mutable_grad().reset();
  }

  void on_gradient(std::size_t i) {
    if (!is_in_step_) {
      throw std::logic_error(
          "[ddp_torch] loss.backward() was called outside of a step: call model.backward(loss, n) "
          "instead, or begin_step(n) before it and wait() after it. If it is the step of another "
          "model, as in a GAN, it must not reach this one's '" +
          replicas_[i].name +
          "': freeze it meanwhile (requires_grad_(false)), or detach() its output. A parameter of "
          "two wrapped modules is not supported: wrap one module that holds both");
    }
    Replica& each = replicas_[i];
    const torch::Tensor grad = each.value.grad();
    if (!grad.is_same(each.gradient)) {
      const torch::NoGradGuard no_graph;
      if (grad.defined()) take(grad.is_sparse() ? grad.to_dense() : grad, each.gradient);
      // A gradient may come in parts, and autograd would add the next one without the factor.
      each.value.mutable_grad() = late_factor_ ? torch::Tensor() : each.gradient;
    }
    engine_.mark_ready(i, stream_);
  }

  void take(const torch::Tensor& grad, torch::Tensor& view) const {
    if (!late_factor_) {
      view.copy_(grad);
    } else {  // the view may hold what earlier passes added
      view.add_(grad.to(torch::promote_types(grad.scalar_type(), torch::kFloat32)), *late_factor_);
    }
  }

  ddp::Stream stream_;
  const torch::nn::Module& module_;
  std::vector<State> buffers_;
  std::vector<State> frozen_;
  std::vector<Replica> replicas_;
  std::vector<const void*> parameter_ids_;
  std::vector<const void*> buffer_ids_;
  bool expects_forward_;
  bool expects_all_;  // trainable parameters in every pass
  ddp::DistributedDataParallel engine_;
  bool is_in_step_ = false;
  bool began_forward_ = false;         // since the last pass began
  std::optional<double> late_factor_;  // while the hooks apply it
};

}  // namespace ddp_torch
