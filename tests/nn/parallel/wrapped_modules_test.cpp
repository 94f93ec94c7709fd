// SPDX-License-Identifier: MIT
//
// How a distributed module and the module that it wraps belong together: names, evaluation, layers
// that were not registered, and modules that are wrapped again or beside others.
#include "ddp/nn/parallel/distributed_module.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "support/groups.h"
#include "support/two_layers.h"

using namespace ddp;
using nn::Tensor;
using test::Branches;
using test::error_of;
using test::expect;
using test::kClasses;
using test::kFeatures;

namespace {

// A batch norm, whose statistics are buffers.
class Normalised final : public nn::Module {
 public:
  explicit Normalised(const nn::Scope& scope)
      : norm(scope.child("norm"), kFeatures), fc(scope.child("fc"), kFeatures, kClasses) {
    register_module(norm);
    register_module(fc);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return fc.forward(tape, norm.forward(tape, input));
  }

  nn::BatchNorm1d norm;
  nn::Linear fc;
};

// A module with a child that it did not add, in front of one that it did.
class Forgetful final : public nn::Module {
 public:
  explicit Forgetful(const nn::Scope& scope)
      : forgotten(scope.child("forgotten"), kFeatures, kFeatures),
        fc(scope.child("fc"), kFeatures, kClasses) {
    register_module(fc);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return fc.forward(tape, forgotten.forward(tape, input));
  }

  nn::Linear forgotten;
  nn::Linear fc;
};

}  // namespace

TEST_CASE("a distributed module has the names of the module that it wraps", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    Normalised normalised({context, DType::kFloat64, 0});
    nn::DistributedModule model(normalised, context, group.shared_from_this(), {});
    nn::Module& module = model;
    expect(&model.module() == &normalised, "the wrapped one");
    const std::vector<nn::NamedTensor> state = module.state_dict();
    const std::vector<nn::NamedTensor> wanted = normalised.state_dict();
    expect(state.size() == wanted.size(), "as many tensors");
    for (std::size_t i = 0; i < state.size(); ++i) {
      expect(state[i].name == wanted[i].name, state[i].name);
      expect(state[i].value.buffer().data == wanted[i].value.buffer().data, "the same memory");
    }
    module.eval();
    expect(!normalised.norm.is_training(), "evaluation reaches the layers");
    module.train();
    expect(normalised.norm.is_training(), "as does training");
  });
}

// The gradients were in the memory of the engine, which has been destroyed.
TEST_CASE("a module may be distributed again, and be trained alone in between", "[module]") {
  for (const int world_size : {1, 2}) {
    test::run_on_all_backends(world_size, [](ProcessGroup& group) {
      nn::Context context;
      Branches branches({context, DType::kFloat64, 0});
      nn::Tape tape(context);
      nn::Sgd optimizer(context, branches.left.parameters(), {.learning_rate = 0.1});
      const auto loss_of = [&](nn::Module& module) {
        const Tensor input =
            context.from_host<double>(std::vector<double>(2 * kFeatures, 1.0), {2, kFeatures});
        const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>(2), {2});
        return nn::softmax_cross_entropy(tape, module.forward(tape, input), label);
      };
      const auto first_value = [&] {
        return context.to_host<double>(branches.left.parameters()[0]->value())[0];
      };
      for (int phase = 0; phase < 3; ++phase) {
        {
          nn::DistributedModule model(branches, context, group.shared_from_this(),
                                      {.unused = UnusedParameters::kZero});
          const double before = first_value();
          model.backward(tape, loss_of(model), 2.0);
          optimizer.step();
          expect(first_value() != before, "a step of all ranks");
          model.backward(tape, loss_of(model), 2.0);  // its gradients are not used
        }
        for (const nn::Parameter* parameter : branches.parameters()) {
          expect(!parameter->has_grad(), "no gradient in memory that is gone");
          expect(parameter->grad_owner() == nullptr, "nobody who is gone to ask");
        }
        const double before = first_value();
        tape.backward(loss_of(branches));
        optimizer.step();
        expect(first_value() != before, "a step of this rank alone");
      }
    });
  }
}

// This happens if the new module is created before the old one is destroyed.
TEST_CASE("a distributed module that is destroyed leaves gradients to its successor", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    Branches branches({context, DType::kFloat64, 0});
    auto model = std::make_unique<nn::DistributedModule>(branches, context,
                                                         group.shared_from_this(), DdpOptions{});
    model = std::make_unique<nn::DistributedModule>(branches, context, group.shared_from_this(),
                                                    DdpOptions{});
    for (const nn::Parameter* parameter : branches.parameters()) {
      expect(parameter->grad_owner() == model.get(), "the second one's");
    }
  });
}

TEST_CASE("in evaluation ranks may have different numbers of batches", "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    nn::Context context;
    Normalised normalised({context, DType::kFloat64, 0});
    nn::DistributedModule model(normalised, context, group.shared_from_this(),
                                {.buffer_sync = BufferSync::kEveryForward});
    nn::Tape tape(context, nn::Recording::kOff);
    const Tensor input =
        context.from_host<double>(std::vector<double>(2 * kFeatures, 1.0), {2, kFeatures});
    model.eval();
    for (int batch = 0; batch <= group.rank(); ++batch) (void)model.forward(tape, input);
    group.barrier().wait();  // would meet a broadcast of buffers
  });
}

TEST_CASE("a rank without samples needs no forward pass, even if buffers are sent at every forward",
          "[module]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    nn::Context context;
    Normalised normalised({context, DType::kFloat64, 0});
    nn::DistributedModule model(normalised, context, group.shared_from_this(),
                                {.buffer_sync = BufferSync::kEveryForward});
    nn::Tape tape(context);
    const Tensor input =
        context.from_host<double>(std::vector<double>{1, 2, 3, 4, 5, 7}, {2, kFeatures});
    const Tensor labels = context.from_host<std::int64_t>(std::vector<std::int64_t>{0, 1}, {2});
    for (int step = 0; step < 3; ++step) {
      if (group.rank() == 0) {
        const nn::Variable output = model.forward(tape, input);
        model.backward(tape, nn::softmax_cross_entropy(tape, output, labels), 2);
      } else {
        model.backward(tape, context.from_host<double>(std::vector<double>{0}, {1}), 0);
      }
      for (nn::Parameter* parameter : normalised.parameters()) parameter->clear_grad();
    }
  });
}

TEST_CASE("a child that was not registered is an error that names its parameter", "[module]") {
  for (const int world_size : {1, 2}) {
    test::run_on_all_backends(world_size, [](ProcessGroup& group) {
      const std::string error = error_of([&] {  // a slow rank gets the error in its constructor
        nn::Context context;
        Forgetful module({context, DType::kFloat64, 0});
        nn::DistributedModule model(module, context, group.shared_from_this(), {});
        nn::Tape tape(context);
        const Tensor input =
            context.from_host<double>(std::vector<double>{1, 2, 3}, {1, kFeatures});
        const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{0}, {1});
        const nn::Variable output = model.forward(tape, input);
        model.backward(tape, nn::softmax_cross_entropy(tape, output, label), 1);
      });
      expect(error.find("parameter 'forgotten.bias' (shape [3])") != std::string::npos, error);
      expect(error.find("belongs to no registered module") != std::string::npos, error);
      expect(error.find("call register_module(child)") != std::string::npos, error);
    });
  }
}

TEST_CASE("a parameter of another distributed module is an error that names it", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    nn::Linear one({context, DType::kFloat64, 0}, kFeatures, kFeatures);
    nn::Linear two({context, DType::kFloat64, 0}, kFeatures, kClasses);
    nn::DistributedModule first(one, context, group.shared_from_this(), {});
    nn::DistributedModule second(two, context, group.shared_from_this(), {});
    nn::Tape tape(context);
    const Tensor input = context.from_host<double>(std::vector<double>{1, 2, 3}, {1, kFeatures});
    const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{0}, {1});
    const nn::Variable output = second.forward(tape, first.forward(tape, input));
    const nn::Variable loss = nn::softmax_cross_entropy(tape, output, label);
    const std::string error = error_of([&] { second.backward(tape, loss, 1); });
    expect(error.find("is of another DistributedModule") != std::string::npos, error);
    expect(error.find("set_requires_grad(false) on the other module") != std::string::npos, error);
  });
}

TEST_CASE("a module that was wrapped again is an error of the first wrapper", "[module]") {
  test::run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    nn::Context context;
    nn::Linear linear({context, DType::kFloat64, 0}, kFeatures, kClasses);
    nn::DistributedModule first(linear, context, group.shared_from_this(), {});
    nn::DistributedModule second(linear, context, group.shared_from_this(), {});
    nn::Tape tape(context);
    const Tensor input = context.from_host<double>(std::vector<double>{1, 2, 3}, {1, kFeatures});
    const Tensor label = context.from_host<std::int64_t>(std::vector<std::int64_t>{0}, {1});
    const auto loss = [&] {
      return nn::softmax_cross_entropy(tape, linear.forward(tape, input), label);
    };
    second.backward(tape, loss(), 1);
    for (nn::Parameter* parameter : linear.parameters()) parameter->clear_grad();
    const std::string error = error_of([&] { first.backward(tape, loss(), 1); });
    expect(error.find("now belongs to the DistributedModule that was made of its module last") !=
               std::string::npos,
           error);
  });
}
