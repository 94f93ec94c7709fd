// SPDX-License-Identifier: MIT
//
// A whole training with a dataset and a module of one's own: which of two spirals is a point on?
//   ddp-launch --nproc_per_node=2 build/bin/spirals
#include <ddp/data/data_loader.h>
#include <ddp/ddp.h>
#include <ddp/nn/modules/linear.h>
#include <ddp/nn/ops.h>
#include <ddp/nn/optim/adam.h>
#include <ddp/nn/parallel/distributed_module.h>
#include <ddp/samplers/exact_sampler.h>

#include <cmath>
#include <cstdio>
#include <numbers>

using namespace ddp;
using nn::Tensor;
using nn::Variable;

namespace {

class Spirals final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 4000; }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return kShape; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return {}; }
  [[nodiscard]] DType label_dtype(DType /*input_dtype*/) const override { return DType::kInt64; }

  // Several threads read at once, so nothing here changes.
  void read(std::int64_t index, std::int64_t /*epoch*/, const Buffer& input,
            const Buffer& label) const override {
    const std::int64_t spiral = index % 2;
    const double turns = 0.2 + 1.3 * static_cast<double>(index) / static_cast<double>(size());
    const double angle = (2 * turns + static_cast<double>(spiral)) * std::numbers::pi;
    const std::span<float> point = input.as<float>();
    point[0] = static_cast<float>(turns * std::cos(angle));
    point[1] = static_cast<float>(turns * std::sin(angle));
    label.as<std::int64_t>()[0] = spiral;
  }

 private:
  static constexpr std::int64_t kShape[] = {2};
};

class Net final : public nn::Module {
 public:
  explicit Net(const nn::Scope& scope)
      : fc1_(scope.child("fc1"), 2, 32),
        fc2_(scope.child("fc2"), 32, 32),
        out_(scope.child("out"), 32, 2) {
    register_module(fc1_);
    register_module(fc2_);
    register_module(out_);
  }

  // x: n x 2. Returns n x 2 logits.
  Variable forward(nn::Tape& tape, const Variable& x) override {
    const Variable hidden = nn::relu(tape, fc1_.forward(tape, x));
    return out_.forward(tape, nn::relu(tape, fc2_.forward(tape, hidden)));
  }

 private:
  nn::Linear fc1_;
  nn::Linear fc2_;
  nn::Linear out_;
};

void train(const std::shared_ptr<ProcessGroup>& group) {
  constexpr std::int64_t kGlobalBatch = 64;
  const int ranks = group->world_size();
  nn::Context context(group->device());
  Net net({context, DType::kFloat32, /*seed=*/0});
  nn::DistributedModule model(net, context, group,
                              {.nominal_samples = static_cast<double>(kGlobalBatch) / ranks});
  nn::Adam optimizer(context, model.parameters(), {.learning_rate = 0.01});

  const Spirals spirals;
  ExactSampler sampler({.dataset_size = spirals.size(),
                        .world_size = ranks,
                        .rank = group->rank(),
                        .global_batch_size = kGlobalBatch});
  DataLoader loader(spirals, {.device = group->device(), .num_workers = 1});

  nn::Tape tape(context);
  for (int epoch = 1; epoch <= 10; ++epoch) {
    loader.start(sampler.next_epoch());
    while (const auto batch = loader.next(context.stream())) {
      const std::int64_t n = batch->count;
      const Tensor labels = Tensor::view(batch->labels, {n});
      const Variable output = model.forward(tape, Tensor::view(batch->inputs, {n, 2}));
      const Variable loss = nn::softmax_cross_entropy(tape, output, labels);
      const Tensor correct = nn::count_correct(context, output.value(), labels);
      const nn::StepMetric metrics[] = {{loss.value(), n}, {correct, 1}};
      model.backward(tape, loss, *batch, metrics);
      optimizer.step();
    }
    const StepSummary totals = model.take_totals();  // of the epoch and all ranks
    if (group->rank() != 0) continue;
    std::printf("epoch %d: loss %.5f, accuracy %.2f %%\n", epoch, totals.metrics[0].mean(),
                100 * totals.metrics[1].sum / totals.samples);
  }
}

}  // namespace

int main() {
  try {
    train(init_process_group());
    return 0;
  } catch (const std::exception& error) {
    record_error(error);
    std::fprintf(stderr, "spirals: %s\n", describe(error).c_str());
    return 1;
  }
}
