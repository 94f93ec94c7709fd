// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/data_parallel.h"

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
  context.run(cpu::unary_backward, cu::unary_backward, x, x, y,
              UnaryFunction{UnaryKind::kAffine, factor});
}

}  // namespace

struct DataParallel::Replica {
  Replica(Device device, const Scope& scope, const ModuleFactory& make)
      : context(device), module(make(scope.on(context))), thread(device) {}

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

// A piece of the batch on one device. The destructor waits for the replica's thread.
struct DataParallel::Part {
  Part(Replica& where, const Piece& which, const Tape& outer)
      : replica(where), piece(which), tape(where.context, outer.recording(), outer.autocast()) {
    if (outer.has_random_key()) tape.set_random_key(outer.random_key().from_row(piece.begin));
  }
  ~Part() { finish(); }

  void start(std::function<void()> work) {
    is_running = true;
    replica.thread.start(std::move(work));
  }
  void wait() {
    is_running = false;
    replica.thread.wait();
  }
  // Waits for the thread after an error elsewhere. If nothing runs, the replica may already be
  // destroyed.
  void finish() {
    if (std::exchange(is_running, false)) replica.thread.finish();
  }

  void forward(const LossFunction& loss) {
    output = replica.module->forward(tape, input);
    if (loss) output = loss(tape, output, targets);
  }

  // Runs backward from the output's gradient.
  void backward() {
    if (output.is_constant()) return;
    const auto pass_on = [this](const Buffer&, const GradientTarget& target) {
      transfer(replica.context, grad_output.buffer(), replica.context, target);
    };
    const Variable root =
        tape.record(replica.context.empty({}, output.value().dtype()), Edge{output, pass_on});
    tape.backward(root);
  }

  Replica& replica;
  Piece piece;
  Tape tape;
  Tensor input;
  Tensor targets;
  Variable output = Tensor();
  Tensor grad_output;
  bool is_running = false;
};

struct DataParallel::Pass {
  [[nodiscard]] double weight_of(const Piece& piece) const {
    return size == 0 ? 1 : static_cast<double>(piece.count) / static_cast<double>(size);
  }
  void finish() {
    for (const auto& part : parts) part->finish();
  }

  std::size_t size = 0;  // samples in the whole batch
  Piece own;             // the samples that the module itself computes
  Tensor input;          // the module's own part of the input
  Tensor targets;
  std::vector<std::unique_ptr<Part>> parts;  // the parts of the other replicas
};

DataParallel::DataParallel(Context& context, const Scope& scope, const ModuleFactory& make,
                           const DataParallelOptions& options)
    : context_(context), dim_(options.dim), module_(make(scope.on(context))) {
  for (const Device device : other_devices(context.device(), options.device_ids)) {
    replicas_.push_back(std::make_unique<Replica>(device, scope, make));
    check_alike(*module_, *replicas_.back()->module);
  }
  add(*module_);
}

DataParallel::~DataParallel() = default;

Variable DataParallel::forward(Tape& tape, const Variable& input) {
  if (!input.is_constant()) {
    throw std::invalid_argument("[nn] DataParallel: no gradient flows to its input");
  }
  const Work work{.input = input.value()};
  return compute(tape, scatter(tape, work), work);
}

Variable DataParallel::loss(Tape& tape, const Tensor& input, const Tensor& targets,
                            const LossFunction& function) {
  const Work work{.input = input, .targets = &targets, .loss = function};
  return compute(tape, scatter(tape, work), work);
}

std::shared_ptr<DataParallel::Pass> DataParallel::scatter(const Tape& tape, const Work& work) {
  const auto pass = std::make_shared<Pass>();
  pass->size = size_along(work.input.shape(), dim_, "an input");
  if (work.targets != nullptr) check_targets(work.targets->shape(), pass->size);
  const auto take = [&](const Piece& piece, Context& to, Tensor& input, Tensor& targets) {
    input = take_piece(context_, work.input, dim_, piece, to);
    if (work.targets != nullptr) targets = take_piece(context_, *work.targets, 0, piece, to);
  };
  const std::vector<Piece> pieces = chunk(pass->size, replicas_.size() + 1);
  pass->own = pieces.front();
  take(pass->own, context_, pass->input, pass->targets);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    Replica& replica = *replicas_[i - 1];
    pass->parts.push_back(std::make_unique<Part>(replica, pieces[i], tape));
    take(pieces[i], replica.context, pass->parts.back()->input, pass->parts.back()->targets);
    copy_model_to(replica);
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

// On the tape three nodes follow each other: a token that depends on all parameters, the module's
// own part of the batch, and the gathered output, which depends on both. In reverse, the output
// node starts the replicas' backward, the module's own backward runs beside it, and the token adds
// the replicas' gradients.
Variable DataParallel::compute(Tape& tape, const std::shared_ptr<Pass>& pass, const Work& work) {
  const Variable token = begin(tape, pass);
  struct FinishAtExit {  // on an exception the caller may destroy what `loss` refers to
    Pass& pass;
    ~FinishAtExit() { pass.finish(); }
  } const finish_at_exit{*pass};
  for (const auto& part : pass->parts) {
    part->start([&part = *part, loss = work.loss] { part.forward(loss); });
  }
  Variable own = module_->forward(tape, pass->input);
  if (work.loss) own = work.loss(tape, own, pass->targets);
  for (const auto& part : pass->parts) part->wait();
  return work.loss ? sum_losses(tape, token, own, pass) : gather(tape, token, own, pass);
}

Variable DataParallel::begin(Tape& tape, const std::shared_ptr<Pass>& pass) {
  std::vector<Edge> edges;
  const auto parameters = module_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    edges.push_back(
        {tape.watch(*parameters[i]), [this, pass, i](const Buffer&, const GradientTarget& target) {
           collect_gradients(*pass, i, target);
         }});
  }
  return tape.record_all(context_.empty({}, DType::kFloat32), std::move(edges));
}

// The target holds the module's own gradient by now, if it has one.
void DataParallel::collect_gradients(Pass& pass, std::size_t parameter, GradientTarget target) {
  for (const auto& part : pass.parts) {
    Replica& replica = part->replica;
    part->wait();
    Parameter& own = *replica.module->parameters()[parameter];
    if (!own.has_grad()) continue;
    transfer(replica.context, own.grad().buffer(), context_, target);
    own.clear_grad();
    target.mode = WriteMode::kAccumulate;
  }
  if (target.mode == WriteMode::kOverwrite) fill(target.buffer, 0, context_.stream());
}

// `split` computes the gradient of each piece from the gradient of the whole `output`.
Variable DataParallel::record(Tape& tape, const Variable& token, const Variable& own, Tensor output,
                              const std::shared_ptr<Pass>& pass, const Split& split) {
  const auto start = [this, pass, split](const Buffer& grad, const GradientTarget&) {
    for (const auto& part : pass->parts) {
      Context& there = part->replica.context;
      const Tensor piece = split(grad, part->piece);
      part->grad_output = there.empty(piece.shape(), piece.dtype());
      transfer(context_, piece.buffer(), there, {part->grad_output.buffer()});
      part->start([&part = *part] { part.backward(); });
    }
  };
  const auto own_backward = [this, pass, split](const Buffer& grad, const GradientTarget& target) {
    transfer(context_, split(grad, pass->own).buffer(), context_, target);
  };
  return tape.record(std::move(output), Edge{token, start}, Edge{own, own_backward});
}

Variable DataParallel::gather(Tape& tape, const Variable& token, const Variable& own,
                              const std::shared_ptr<Pass>& pass) {
  const std::size_t rows = size_along(own.shape(), dim_, "an output");
  if (rows != pass->own.count) {
    throw std::invalid_argument("[nn] DataParallel: an output of shape " + to_string(own.shape()) +
                                " for " + std::to_string(pass->own.count) + " along dimension " +
                                std::to_string(dim_) + " of the input");
  }
  const Shape whole = own.shape().with(dim_, pass->size);
  const Tensor output = context_.empty(whole, own.value().dtype());
  put_piece(context_, own.value(), context_, output, dim_, pass->own);
  for (const auto& part : pass->parts) {
    put_piece(part->replica.context, part->output.value(), context_, output, dim_, part->piece);
  }
  return record(tape, token, own, output, pass,
                [this, whole](const Buffer& grad, const Piece& piece) {
                  return take_piece(context_, Tensor::view(grad, whole), dim_, piece, context_);
                });
}

Variable DataParallel::sum_losses(Tape& tape, const Variable& token, const Variable& own,
                                  const std::shared_ptr<Pass>& pass) {
  const DType dtype = own.value().dtype();
  const Tensor sum = context_.empty({}, dtype);
  put_scaled(context_, own.buffer(), pass->weight_of(pass->own), {sum.buffer()});
  for (const auto& part : pass->parts) {
    const Tensor loss = context_.empty({}, dtype);
    transfer(part->replica.context, part->output.buffer(), context_, {loss.buffer()});
    put_scaled(context_, loss.buffer(), pass->weight_of(part->piece),
               {sum.buffer(), WriteMode::kAccumulate});
  }
  return record(tape, token, own, sum, pass, [this, pass](const Buffer& grad, const Piece& piece) {
    Tensor share = context_.empty({}, grad.dtype);
    put_scaled(context_, grad, pass->weight_of(piece), {share.buffer()});
    return share;
  });
}

}  // namespace ddp::nn
