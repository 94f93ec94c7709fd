// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/data_parallel.h"

#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/unary.h"
#include "ddp/nn/parallel/data_parallel_checks.h"
#include "ddp/nn/parallel/replica_thread.h"

namespace ddp::nn {
namespace {

// y = factor * x, or that is added to y.
void put_scaled(Context& context, const Buffer& x, double factor, const GradientTarget& y) {
  context.run_any_float(cpu::unary_backward, cu::unary_backward, x, x, y,
                        UnaryFunction{UnaryKind::kAffine, factor});
}

std::unique_ptr<Module> given(std::unique_ptr<Module> module) {
  if (module != nullptr) return module;
  throw std::invalid_argument("[nn] DataParallel: the factory made no module");
}

}  // namespace

struct DataParallel::Replica {
  Replica(Device device, const Scope& scope, const ModuleFactory& make)
      : context(device), module(given(make(scope.on(context)))), thread(device) {}

  Context context;
  std::unique_ptr<Module> module;
  ReplicaThread thread;  // destroyed first
};

// The input and targets of a pass; with targets it computes the loss.
struct DataParallel::Work {
  const Tensor& input;
  const Tensor* targets = nullptr;  // with a loss
  LossFunction loss = {};
};

// A piece of the batch where it is computed, recorded on a tape of its own.
struct DataParallel::Part {
  Part(Context& where, Module& what, const Piece& which, const Tape& outer)
      : context(where),
        module(what),
        piece(which),
        tape(where, outer.recording(), outer.autocast()) {
    if (outer.has_random_key()) tape.set_random_key(outer.random_key().from_row(piece.begin));
  }

  void forward(const LossFunction& loss) {
    output = module.forward(tape, input);
    if (loss) output = loss(tape, output, targets);
  }

  // Runs backward from the output's gradient.
  void backward() {
    if (output.is_constant()) return;
    const auto pass_on = [this](const Buffer&, const GradientTarget& target) {
      transfer(context, grad_output.buffer(), context, target);
    };
    const Variable root =
        tape.record(context.empty({}, output.value().dtype()), Edge{output, pass_on});
    tape.backward(root);
  }

  Context& context;
  Module& module;
  Piece piece;
  Tape tape;
  Tensor input;
  Tensor targets;
  Variable output = Tensor();
  Tensor grad_output;
};

struct DataParallel::Pass {
  [[nodiscard]] double weight_of(const Piece& piece) const {
    return size == 0 ? 1 : static_cast<double>(piece.count) / static_cast<double>(size);
  }

  std::size_t size = 0;                      // samples in the whole batch
  std::vector<std::unique_ptr<Part>> parts;  // of the module itself, then of the replicas
};

DataParallel::DataParallel(Context& context, const Scope& scope, const ModuleFactory& make,
                           const DataParallelOptions& options)
    : context_(context), dim_(options.dim), module_(given(make(scope.on(context)))) {
  for (const Device device : other_devices(context.device(), options.device_ids)) {
    replicas_.push_back(std::make_unique<Replica>(device, scope, make));
    check_alike(*module_, *replicas_.back()->module);
  }
  register_module(*module_);
}

DataParallel::~DataParallel() = default;

Variable DataParallel::forward(Tape& tape, const Variable& input) {
  if (!input.is_constant()) {
    throw std::invalid_argument("[nn] DataParallel: no gradient flows to its input");
  }
  const Work work{.input = input.value()};
  return compute(tape, work);
}

Variable DataParallel::loss(Tape& tape, const Tensor& input, const Tensor& targets,
                            const LossFunction& function) {
  const Work work{.input = input, .targets = &targets, .loss = function};
  return compute(tape, work);
}

std::shared_ptr<DataParallel::Pass> DataParallel::scatter(const Tape& tape, const Work& work) {
  const auto pass = std::make_shared<Pass>();
  check_on(context_.device(), work.input, "an input");
  pass->size = size_along(work.input.shape(), dim_, "an input");
  if (work.targets != nullptr) {
    check_on(context_.device(), *work.targets, "a tensor of targets");
    check_targets(work.targets->shape(), pass->size);
  }
  for (const Piece& piece : chunk(pass->size, replicas_.size() + 1)) {
    Replica* replica = pass->parts.empty() ? nullptr : replicas_[pass->parts.size() - 1].get();
    Context& where = replica == nullptr ? context_ : replica->context;
    Module& module = replica == nullptr ? *module_ : *replica->module;
    Part& part = *pass->parts.emplace_back(std::make_unique<Part>(where, module, piece, tape));
    part.input = take_piece(context_, work.input, dim_, piece, where);
    if (work.targets != nullptr) {
      part.targets = take_piece(context_, *work.targets, 0, piece, where);
    }
    if (replica != nullptr) copy_model_to(*replica);
  }
  return pass;
}

void DataParallel::copy_model_to(Replica& replica) {
  const std::vector<Module*> modules = module_->modules(), theirs = replica.module->modules();
  // Parents come before children, so a child's own mode is what remains.
  for (std::size_t i = 0; i < modules.size(); ++i) theirs[i]->train(modules[i]->is_training());
  std::vector<Copy> copies;
  const auto copy = [&](const Tensor& from, const Tensor& to) {
    copies.push_back({from.buffer(), to.buffer()});
  };
  const auto parameters = module_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    copy(parameters[i]->value(), replica.module->parameters()[i]->value());
    replica.module->parameters()[i]->clear_grad();  // a backward that threw may leave one
    replica.module->parameters()[i]->set_requires_grad(parameters[i]->requires_grad());
  }
  for (std::size_t i = 0; i < module_->buffers().size(); ++i) {
    copy(module_->buffers()[i].value, replica.module->buffers()[i].value);
  }
  copy_all(context_, replica.context, copies);
}

// Returns, also by an exception, only when all parts are done.
void DataParallel::run(Pass& pass, const std::function<void(Part&)>& work) {
  const std::span replicas = std::span(replicas_).first(pass.parts.size() - 1);
  struct FinishAtExit {
    std::span<const std::unique_ptr<Replica>> replicas;
    ~FinishAtExit() {
      for (const auto& replica : replicas) replica->thread.finish();
    }
  } const finish_at_exit{replicas};
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    replicas[i]->thread.start([&work, &part = *pass.parts[i + 1]] { work(part); });
  }
  work(*pass.parts.front());
  for (const auto& replica : replicas) replica->thread.wait();
}

// On the caller's tape two nodes follow each other: a token that depends on all parameters, and the
// gathered output, which depends on the token. In reverse, the output's node runs the backward of
// all parts, of which the module's own writes its parameters' gradients, and the token's adds those
// of the replicas.
Variable DataParallel::compute(Tape& tape, const Work& work) {
  const std::shared_ptr<Pass> pass = scatter(tape, work);
  run(*pass, [&](Part& part) { part.forward(work.loss); });
  return work.loss ? sum_losses(tape, pass) : gather(tape, pass);
}

// `split` computes the gradient of a part's output from that of the whole, on the part's context.
Variable DataParallel::record(Tape& tape, Tensor output, const std::shared_ptr<Pass>& pass,
                              const Split& split) {
  std::vector<Edge> edges;
  const auto parameters = module_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    edges.push_back(
        {tape.watch(*parameters[i]), [this, pass, i](const Buffer&, const GradientTarget& target) {
           or_drop_gradients(*pass, [&] { collect_gradients(*pass, i, target); });
         }});
  }
  const Variable token =
      tape.record_all(tape.context().empty({}, DType::kFloat32), std::move(edges));
  const auto run_backward = [this, pass, split](const Buffer& grad, const GradientTarget&) {
    or_drop_gradients(*pass, [&] {
      for (const auto& part : pass->parts) part->grad_output = split(grad, *part);
      run(*pass, [](Part& part) { part.backward(); });
    });
  };
  return tape.record(std::move(output), Edge{token, run_backward});
}

// The parts have tapes of their own, so the caller's tape does not know which gradients they have
// written before something threw.
void DataParallel::or_drop_gradients(const Pass& pass, const std::function<void()>& act) {
  try {
    act();
  } catch (...) {
    for (const auto& part : pass.parts) {
      for (Parameter* parameter : part->module.parameters()) parameter->clear_grad();
    }
    throw;
  }
}

// The target holds the module's own gradient by now, if it has one.
void DataParallel::collect_gradients(const Pass& pass, std::size_t parameter,
                                     GradientTarget target) {
  for (const auto& part : std::span(pass.parts).subspan(1)) {
    Parameter& own = *part->module.parameters()[parameter];
    if (!own.has_grad()) continue;
    transfer(part->context, own.grad().buffer(), context_, target);
    own.clear_grad();
    target.mode = WriteMode::kAccumulate;
  }
  if (target.mode == WriteMode::kOverwrite) fill(target.buffer, 0, context_.stream());
}

Variable DataParallel::gather(Tape& tape, const std::shared_ptr<Pass>& pass) {
  const Tensor& own = pass->parts.front()->output.value();
  for (const auto& part : pass->parts) {
    check_output(part->output.value(), part->piece.count, own, dim_);
  }
  Context& to = tape.context();
  const Shape whole = own.shape().with(dim_, pass->size);
  const Tensor output = to.empty(whole, own.dtype());
  for (const auto& part : pass->parts) {
    put_piece(part->context, part->output.value(), to, output, dim_, part->piece);
  }
  return record(tape, output, pass, [this, &to, whole](const Buffer& grad, const Part& part) {
    return take_piece(to, Tensor::view(grad, whole), dim_, part.piece, part.context);
  });
}

Variable DataParallel::sum_losses(Tape& tape, const std::shared_ptr<Pass>& pass) {
  for (const auto& part : pass->parts) check_loss(part->output.value());
  Context& to = tape.context();
  const DType dtype = pass->parts.front()->output.value().dtype();
  const Tensor sum = to.empty({}, dtype);
  WriteMode mode = WriteMode::kOverwrite;
  for (const auto& part : pass->parts) {
    const Tensor loss = to.empty({}, dtype);
    transfer(part->context, part->output.buffer(), to, {loss.buffer()});
    put_scaled(to, loss.buffer(), pass->weight_of(part->piece), {sum.buffer(), mode});
    mode = WriteMode::kAccumulate;
  }
  return record(tape, sum, pass, [&to, pass](const Buffer& grad, const Part& part) {
    const Tensor share = to.empty({}, grad.dtype), there = part.context.empty({}, grad.dtype);
    put_scaled(to, grad, pass->weight_of(part.piece), {share.buffer()});
    transfer(to, share.buffer(), part.context, {there.buffer()});
    return there;
  });
}

}  // namespace ddp::nn
