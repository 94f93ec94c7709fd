// SPDX-License-Identifier: MIT
//
// A batch that is split unequally among ranks is normalised as in one process.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/init.h"
#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/nn/parallel/sync_batch_norm.h"
#include "ddp/store/hash_store.h"
#include "support/differences.h"
#include "support/gradients.h"
#include "support/groups.h"
#include "support/run_ranks.h"

using namespace ddp;
using nn::Shape;
using nn::Tensor;
using test::expect;
using Doubles = std::vector<double>;

namespace {

Doubles draws(std::uint64_t seed, std::size_t first, std::size_t count) {
  Doubles values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 3 * ddp::random_unit(seed, 1, first + i) + 2;
  return values;
}

void append(Doubles& to, const Doubles& from) { to.insert(to.end(), from.begin(), from.end()); }

void expect_equal(const Doubles& values, const Doubles& expected, const std::string& what) {
  const double difference = test::largest_difference(values, expected);
  const double allowed = 1e-12 * std::max(test::largest_magnitude(expected), 1.0);
  expect(difference <= allowed, what + " equal, not different by " +
                                    std::to_string(difference / allowed) +
                                    " times what is allowed");
}

constexpr std::size_t kChannels = 3;
constexpr std::size_t kPlane = 5 * 2;

// The results of a batch norm for some samples of a batch.
struct Outcome {
  Doubles y, grad_x;
  Doubles grad_parameters;  // weight, then bias
  Doubles running;          // mean, variance, batches
};

// Runs two steps on samples [first, first + n) of a batch, so that the running statistics change.
Outcome run_batch_norm(nn::Context& context, nn::BatchNorm2d& layer, std::size_t first,
                       std::size_t n) {
  Outcome outcome;
  nn::Tape tape(context);
  constexpr std::size_t kSample = kChannels * kPlane;
  for (const std::uint64_t step : {1U, 2U}) {
    nn::Parameter x("x", context.from_host<double>(draws(step, first * kSample, n * kSample),
                                                   {n, kChannels, 5, 2}));
    const nn::Variable y = layer.forward(tape, tape.watch(x));
    const Tensor grad =
        context.from_host<double>(draws(step + 9, first * kSample, n * kSample), {1, n * kSample});
    const Tensor zero = Tensor::zeros({1}, DType::kFloat64);
    for (nn::Parameter* parameter : layer.parameters()) parameter->clear_grad();
    tape.backward(nn::linear(tape, y.reshaped({1, n * kSample}), grad, zero));
    append(outcome.y, context.to_host<double>(y.value()));
    append(outcome.grad_x, context.to_host<double>(x.grad()));
    for (nn::Parameter* parameter : layer.parameters()) {
      append(outcome.grad_parameters, context.to_host<double>(parameter->grad()));
    }
  }
  append(outcome.running, context.to_host<double>(layer.buffers()[0].value));
  append(outcome.running, context.to_host<double>(layer.buffers()[1].value));
  const Tensor& batches = layer.buffers()[2].value;
  outcome.running.push_back(static_cast<double>(context.to_host<std::int64_t>(batches).front()));
  return outcome;
}

// A rank's part of one process's results for two steps of 8 samples.
Doubles part_of(const Doubles& whole, std::size_t first, std::size_t n) {
  const std::size_t sample = whole.size() / 16;
  Doubles part;
  for (const std::size_t step : {0U, 8U}) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>((step + first) * sample);
    part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(n * sample));
  }
  return part;
}

void check_parts(const std::vector<std::size_t>& parts, const nn::BatchNormOptions& options) {
  nn::Context whole_context;
  nn::BatchNorm2d whole_layer({whole_context, DType::kFloat64, 0}, kChannels, options);
  const Outcome whole = run_batch_norm(whole_context, whole_layer, 0, 8);
  test::run_on_all_backends(static_cast<int>(parts.size()), [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    const std::size_t first =
        std::accumulate(parts.begin(), parts.begin() + group.rank(), std::size_t{0});
    nn::Context context;
    nn::BatchNorm2d layer({context, DType::kFloat64, 0}, kChannels, options);
    expect(nn::convert_sync_batchnorm(layer, group) == 1, "one batch norm");
    Outcome own = run_batch_norm(context, layer, first, parts[rank]);
    expect_equal(own.y, part_of(whole.y, first, parts[rank]), "outputs");
    expect_equal(own.grad_x, part_of(whole.grad_x, first, parts[rank]), "gradients of x");
    expect_equal(own.running, whole.running, "running statistics");
    group.all_reduce(buffer_of(own.grad_parameters)).wait();
    expect_equal(own.grad_parameters, whole.grad_parameters, "summed gradients of parameters");
    Doubles first_running = own.running;
    group.broadcast(buffer_of(first_running), 0).wait();
    expect(first_running == own.running, "the same bits on all ranks");
  });
}

// Linear, batch norm, ReLU, linear.
class Net final : public nn::Module {
 public:
  explicit Net(const nn::Scope& scope)
      : fc1_(scope.child("fc1"), 4, 6),
        bn1_(scope.child("bn1"), 6),
        fc2_(scope.child("fc2"), 6, 3) {
    register_module(fc1_);
    register_module(bn1_);
    register_module(fc2_);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    const nn::Variable hidden = bn1_.forward(tape, fc1_.forward(tape, input));
    return fc2_.forward(tape, nn::relu(tape, hidden));
  }

 private:
  nn::Linear fc1_;
  nn::BatchNorm1d bn1_;
  nn::Linear fc2_;
};

// What loaders of several ranks give: rank r's batches have r + 2 samples. A global batch has those
// of all ranks that have not run out, in the order of ranks.
struct Loaders {
  std::vector<std::size_t> batches;  // by rank

  [[nodiscard]] std::size_t size() const { return batches.size(); }
  // The number of samples before those of this rank.
  [[nodiscard]] std::size_t first(std::size_t batch, std::size_t rank) const {
    std::size_t before = 0;
    for (std::size_t r = 0; r < size(); ++r) {
      before += (r + 2) * std::min(batches[r], batch + (r < rank ? 1 : 0));
    }
    return before;
  }
};

// How a step is made.
struct StepPlan {
  int passes = 1;
  double largest_norm = std::numeric_limits<double>::infinity();  // of the gradients
};

// The training of one rank with synchronised batch norms.
class Trainee {
 public:
  explicit Trainee(ProcessGroup& group)
      : net_({context_, DType::kFloat64, 3}),
        model_(net_, context_, group.shared_from_this(),
               {.nominal_samples = 6.0 / group.world_size()}),
        optimizer_(context_, net_.parameters(), {.learning_rate = 0.1, .momentum = 0.9}),
        tape_(context_) {
    expect(nn::convert_sync_batchnorm(net_, group) == 1, "one batch norm");
  }

  // Trains on the samples of ranks [begin, end) until no rank has any.
  void train(const Loaders& loaders, std::size_t begin, std::size_t end, const StepPlan& plan) {
    std::size_t batch = 0;
    do {
      model_.accumulate(plan.passes);
      for (int pass = 0; pass < plan.passes; ++pass, ++batch) {
        const std::size_t first = loaders.first(batch, begin);
        backward(first, loaders.first(batch, end) - first);
      }
      norms_.push_back(context_.to_host<double>(model_.clip_grad_norm(plan.largest_norm))[0]);
      model_.step(optimizer_);
    } while (!model_.engine().is_over());
    norms_.pop_back();
  }

  // Parameters and running statistics.
  [[nodiscard]] Doubles state() {
    Doubles all;
    for (const nn::NamedTensor& tensor : net_.state_dict()) {
      if (tensor.value.dtype() == DType::kFloat64) {
        append(all, context_.to_host<double>(tensor.value));
      }
    }
    return all;
  }
  // Those of the gradients in each step, before they were clipped.
  [[nodiscard]] const Doubles& norms() const { return norms_; }

 private:
  void backward(std::size_t first, std::size_t n) {
    const Tensor input = context_.from_host<double>(draws(5, 4 * first, 4 * n), {n, 4});
    std::vector<std::int64_t> labels(n);
    for (std::size_t i = 0; i < n; ++i) labels[i] = static_cast<std::int64_t>((first + i) % 3);
    const Tensor label = context_.from_host<std::int64_t>(labels, {n});
    const nn::Variable loss = nn::softmax_cross_entropy(tape_, model_.forward(tape_, input), label);
    model_.backward(tape_, loss, {.samples = static_cast<double>(n), .is_active = n > 0});
  }

  nn::Context context_;
  Net net_;
  nn::DistributedModule model_;
  nn::Sgd optimizer_;
  nn::Tape tape_;
  Doubles norms_;
};

// Trains with one rank for each loader, and compares this with one rank that has all samples.
// Returns the latter's norms.
Doubles check_loaders(const Loaders& loaders, const StepPlan& plan) {
  Doubles alone, norms;
  test::run_groups(Backend::kShm, 1, [&](ProcessGroup& group) {
    Trainee trainee(group);
    trainee.train(loaders, 0, loaders.size(), plan);
    alone = trainee.state();
    norms = trainee.norms();
  });
  test::run_on_all_backends(static_cast<int>(loaders.size()), [&](ProcessGroup& group) {
    Trainee trainee(group);
    const auto rank = static_cast<std::size_t>(group.rank());
    trainee.train(loaders, rank, rank + 1, plan);
    expect_equal(trainee.state(), alone, "models");
    expect_equal(trainee.norms(), norms, "norms");
  });
  return norms;
}

}  // namespace

TEST_CASE("batches of 3 and 5 on two ranks are normalised as one of 8", "[sync_batch_norm]") {
  check_parts({3, 5}, {});
  check_parts({3, 5}, {.affine = false});
  check_parts({3, 5}, {.momentum = {}});
  check_parts({8, 0}, {});
  check_parts({0, 8}, {});
  check_parts({1, 0, 7}, {});
  check_parts({4, 3, 1}, {});
}

TEST_CASE("empty batches on all ranks do not change synchronised statistics", "[sync_batch_norm]") {
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    nn::Context context;
    nn::BatchNorm2d layer({context, DType::kFloat64, 0}, kChannels);
    nn::convert_sync_batchnorm(layer, group);
    const Outcome outcome = run_batch_norm(context, layer, 0, 0);
    expect(outcome.running == Doubles{0, 0, 0, 1, 1, 1, 0}, "statistics as they began");
    expect(outcome.grad_parameters == Doubles(4 * kChannels, 0), "gradients of 0");
  });
}

TEST_CASE("a batch with one element per channel on all ranks together is an error on all of them",
          "[sync_batch_norm]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    nn::Context context;
    nn::BatchNorm1d layer({context, DType::kFloat64, 0}, kChannels);
    nn::convert_sync_batchnorm(layer, group);
    nn::Tape tape(context);
    const auto error_of_batch = [&](std::size_t rows) {
      const Tensor x = context.from_host<double>(draws(0, 0, rows * kChannels), {rows, kChannels});
      return test::error_of([&] { (void)layer.forward(tape, {x}); });
    };
    const std::string error = error_of_batch(group.rank() == 0 ? 1 : 0);
    expect(error.find("one element per channel on all ranks together") != std::string::npos, error);
    expect(error_of_batch(1).empty(), "two elements");
  });
}

TEST_CASE("in evaluation, ranks do not communicate", "[sync_batch_norm]") {
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    nn::Context context;
    nn::BatchNorm1d layer({context, DType::kFloat64, 0}, 2);
    nn::convert_sync_batchnorm(layer, group);
    layer.train(false);
    if (group.rank() == 1) return;  // the other rank would wait for this one
    nn::Tape tape(context, nn::Recording::kOff);
    const Tensor x = context.from_host<double>(Doubles{1, 2}, {1, 2});
    const double invstd = 1 / std::sqrt(1 + 1e-5);
    expect_equal(context.to_host<double>(layer.forward(tape, x).value()), {invstd, 2 * invstd},
                 "outputs");
  });
}

TEST_CASE("statistics do not queue behind the gradients' collectives", "[sync_batch_norm]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    const auto submitted = [&] { return group.recorder().position().submitted; };
    nn::Context context;
    nn::BatchNorm2d layer({context, DType::kFloat64, 0}, kChannels);
    nn::convert_sync_batchnorm(layer, group);
    const auto before = submitted();
    (void)run_batch_norm(context, layer, static_cast<std::size_t>(group.rank()) * 4, 4);
    expect(submitted() == before, "the group itself makes no collectives");
    std::vector<double> one = {1};
    group.all_reduce(buffer_of(one)).wait();
    expect(submitted() == before + 1, "its recorder would have counted them");
  });
}

TEST_CASE("loaders of 4 and 7 batches train the same model as one process, including batch norms",
          "[sync_batch_norm]") {
  CHECK(check_loaders({{4, 7}}, {}).size() == 7);
  CHECK(check_loaders({{4, 7, 5}}, {}).size() == 7);
}

// Batch norms normalise each pass of a step by itself, so the one process makes the same passes.
TEST_CASE("loaders of 5 and 9 batches train the same model even with several passes and clipping",
          "[sync_batch_norm]") {
  for (const int passes : {2, 4}) {  // a rank, and then both, run out within a step
    const StepPlan plan{.passes = passes, .largest_norm = 0.2};
    for (const Loaders& loaders : {Loaders{{5, 9}}, Loaders{{9, 5, 6}}}) {
      const Doubles norms = check_loaders(loaders, plan);
      CHECK(norms.size() == (passes == 2 ? 5 : 3));
      CHECK(*std::ranges::min_element(norms) > plan.largest_norm);
    }
  }
}

TEST_CASE("a rank in evaluation is missing in a batch norm of training, which is told",
          "[sync_batch_norm]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    const auto group =
        init_process_group({.backend = Backend::kShm,
                            .device = DeviceChoice::kCpu,
                            .rank = rank,
                            .world_size = 2,
                            .store = store,
                            .ranks_are_threads = true,
                            .timeout = std::chrono::seconds(2),
                            .hang_watch = {.period = std::chrono::milliseconds(20),
                                           .patience = std::chrono::milliseconds(200)}});
    nn::Context context;
    nn::BatchNorm1d layer({context, DType::kFloat64, 0}, 2);
    nn::convert_sync_batchnorm(layer, *group);
    layer.train(rank == 0);
    // For rank 1, which so is still waiting when rank 0 gives up in the layer's own group.
    const ScopedTimeout timeout(*group, std::chrono::seconds(60));
    const std::string text = test::error_of([&] {
      nn::Tape tape(context);
      (void)layer.forward(tape, context.from_host<double>(Doubles{1, 2}, {1, 2}));
      group->barrier().wait();
    });
    if (rank == 1) return;
    expect(text.find("rank 1 ") != std::string::npos &&
               text.find("has not joined all_gather #1 (batch norm in training mode)") !=
                   std::string::npos,
           text);
  });
}

TEST_CASE("converting a module with DataParallel to SyncBatchNorm is an error",
          "[sync_batch_norm]") {
  test::run_on_all_backends(2, [&](ProcessGroup& group) {
    nn::Context context;
    const nn::ModuleFactory make = [](const nn::Scope& scope) {
      return std::make_unique<nn::BatchNorm1d>(scope, 2);
    };
    nn::DataParallel model(context, {context, DType::kFloat64, 0}, make,
                           {.device_ids = {kCpuDevice, kCpuDevice}});
    const std::string error = test::error_of([&] { nn::convert_sync_batchnorm(model, group); });
    expect(error.find("[nn] convert_sync_batchnorm: the module has a DataParallel, whose") == 0,
           "an error, not \"" + error + "\"");
  });
}
