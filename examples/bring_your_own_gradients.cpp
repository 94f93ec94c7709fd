// SPDX-License-Identifier: MIT
//
// Your own trainer, with libddp beside it: two layers on Fashion-MNIST, forward and backward as
// plain loops over raw arrays, without tensors or autograd. Search for "ddp." to see everything
// that makes it data-parallel; bring_your_own_gradients_cuda.cu is the same in CUDA.
//
//   ddp-launch --nproc_per_node=2 build/bin/bring_your_own_gradients
//
// Any number of ranks trains the same model, since the ranks share the global batch. In your own
// project, link ddp::ddp, ddp::data and ddp::samplers.
#include <ddp/data/fashion_mnist.h>
#include <ddp/ddp.h>
#include <ddp/samplers/exact_sampler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

namespace {

using In = std::span<const float>;
using Out = std::span<float>;

constexpr std::size_t kPixels = 28 * 28, kHidden = 32, kClasses = 10;
constexpr std::int64_t kGlobalBatch = 128;
constexpr float kLearningRate = 0.1F;

enum : std::size_t { kWeight1, kBias1, kWeight2, kBias2 };

// Our parameters, in our memory; a weight is [inputs][outputs].
struct Model {
  std::array<std::vector<float>, 4> values = {
      std::vector<float>(kPixels * kHidden), std::vector<float>(kHidden),
      std::vector<float>(kHidden* kClasses), std::vector<float>(kClasses)};

  Model() {
    std::mt19937 random;
    std::normal_distribution<float> normal;
    for (float& w : values[kWeight1]) w = normal(random) * std::sqrt(2.0F / kPixels);
    for (float& w : values[kWeight2]) w = normal(random) * std::sqrt(2.0F / kHidden);
  }

  // What libddp needs to know. It copies rank 0's values to all ranks. Since no memory is given for
  // the gradients, they get places inside its buckets.
  std::vector<ddp::Parameter> parameters() {
    return {{"weight1", {kPixels, kHidden}, ddp::buffer_of(values[kWeight1])},
            {"bias1", {kHidden}, ddp::buffer_of(values[kBias1])},
            {"weight2", {kHidden, kClasses}, ddp::buffer_of(values[kWeight2])},
            {"bias2", {kClasses}, ddp::buffer_of(values[kBias2])}};
  }
};

// This rank's part of a global batch. It may be empty.
struct Batch {
  std::vector<float> pixels, hidden, logits;
  std::vector<std::int64_t> labels;

  Batch(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices)
      : pixels(indices.size() * kPixels),
        hidden(indices.size() * kHidden),
        logits(indices.size() * kClasses),
        labels(indices.size()) {
    dataset.gather(indices, ddp::buffer_of(pixels), ddp::buffer_of(labels));
  }
};

// y = x * weight + bias, row by row.
void linear(In x, In weight, In bias, Out y) {
  const std::size_t outputs = bias.size(), inputs = weight.size() / outputs;
  for (std::size_t row = 0; row < y.size() / outputs; ++row) {
    float* out = &y[row * outputs];
    std::copy(bias.begin(), bias.end(), out);
    for (std::size_t i = 0; i < inputs; ++i) {
      const float value = x[row * inputs + i];
      for (std::size_t o = 0; o < outputs; ++o) out[o] += value * weight[i * outputs + o];
    }
  }
}

// Computes the gradients of weight and bias from that of y.
void linear_backward(In x, In dy, Out dweight, Out dbias) {
  const std::size_t outputs = dbias.size(), inputs = dweight.size() / outputs;
  std::fill(dweight.begin(), dweight.end(), 0.0F);
  std::fill(dbias.begin(), dbias.end(), 0.0F);
  for (std::size_t row = 0; row < dy.size() / outputs; ++row) {
    const float* slope = &dy[row * outputs];
    for (std::size_t o = 0; o < outputs; ++o) dbias[o] += slope[o];
    for (std::size_t i = 0; i < inputs; ++i) {
      const float value = x[row * inputs + i];
      for (std::size_t o = 0; o < outputs; ++o) dweight[i * outputs + o] += value * slope[o];
    }
  }
}

// Computes the gradient of the hidden units from that of the logits, and overwrites the hidden
// units with it.
void hidden_backward(In weight2, In dlogits, Out hidden) {
  for (std::size_t k = 0; k < hidden.size(); ++k) {
    const std::size_t row = k / kHidden, unit = k % kHidden;
    const bool active = hidden[k] > 0;  // ReLU
    hidden[k] = 0;
    for (std::size_t c = 0; active && c < kClasses; ++c) {
      hidden[k] += weight2[unit * kClasses + c] * dlogits[row * kClasses + c];
    }
  }
}

struct Score {
  double loss = 0, correct = 0;  // summed over samples
};

// Replaces the logits by the gradient of `scale` times the summed cross-entropy.
Score softmax_cross_entropy(Batch& batch, float scale) {
  Score score;
  for (std::size_t row = 0; row < batch.labels.size(); ++row) {
    const auto label = static_cast<std::size_t>(batch.labels[row]);
    const Out logits = Out(batch.logits).subspan(row * kClasses, kClasses);
    const auto best = std::max_element(logits.begin(), logits.end());
    const float largest = *best, own = logits[label];
    if (best == logits.begin() + batch.labels[row]) ++score.correct;
    float sum = 0;
    for (float& each : logits) sum += each = std::exp(each - largest);
    for (float& each : logits) each *= scale / sum;
    logits[label] -= scale;
    score.loss += std::log(sum) + largest - own;
  }
  return score;
}

void forward(const Model& model, Batch& batch) {
  linear(batch.pixels, model.values[kWeight1], model.values[kBias1], batch.hidden);
  for (float& each : batch.hidden) each = std::max(each, 0.0F);
  linear(batch.hidden, model.values[kWeight2], model.values[kBias2], batch.logits);
}

// Writes each gradient to its bucket and reports it at once, so that the second layer's gradients
// are reduced while the first layer's are still being computed.
void backward(const Model& model, Batch& batch, ddp::DistributedDataParallel& ddp) {
  const auto gradient = [&](std::size_t i) { return ddp.gradient(i).as<float>(); };
  linear_backward(batch.hidden, batch.logits, gradient(kWeight2), gradient(kBias2));
  ddp.mark_ready(kBias2);
  ddp.mark_ready(kWeight2);
  hidden_backward(model.values[kWeight2], batch.logits, batch.hidden);
  linear_backward(batch.pixels, batch.hidden, gradient(kWeight1), gradient(kBias1));
  ddp.mark_ready(kBias1);
  ddp.mark_ready(kWeight1);
}

// `order`: the fingerprint of the plan, by which the engine knows that all ranks have the same one.
void train_step(Model& model, Batch& batch, std::uint32_t order,
                ddp::DistributedDataParallel& ddp) {
  const auto n = static_cast<double>(batch.labels.size());
  // The factor makes unequal batches weigh right.
  const double factor = ddp.begin_step({.samples = n, .plan_fingerprint = order});
  forward(model, batch);
  const Score score = softmax_cross_entropy(batch, static_cast<float>(factor / n));
  ddp.record_metric(0, score.loss / n, n);
  backward(model, batch, ddp);
  ddp.wait();  // from here on gradients are the mean over the global batch
  if (!ddp.should_step()) return;
  for (std::size_t i = 0; i < model.values.size(); ++i) {
    const auto gradient = ddp.gradient(i).as<float>();
    std::vector<float>& value = model.values[i];
    for (std::size_t k = 0; k < value.size(); ++k) value[k] -= kLearningRate * gradient[k];
  }
}

// A plan for one pass over the data: every sample once, whatever the number of ranks.
ddp::EpochPlan plan_of(const ddp::Dataset& dataset, const ddp::ProcessGroup& group, bool shuffle) {
  const ddp::ExactSampler sampler({.dataset_size = dataset.size(),
                                   .world_size = group.world_size(),
                                   .rank = group.rank(),
                                   .global_batch_size = kGlobalBatch,
                                   .shuffle = shuffle});
  return sampler.plan({.epoch = 0});
}

// Every rank counts on its part of the test set; all ranks get the sum.
double accuracy(const Model& model, const ddp::Dataset& dataset, ddp::ProcessGroup& group) {
  const ddp::EpochPlan plan = plan_of(dataset, group, false);
  std::array<double, 1> correct = {};
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    Batch batch(dataset, plan.batch(step));
    forward(model, batch);
    correct[0] += softmax_cross_entropy(batch, 0).correct;
  }
  ddp::all_reduce_on_host(group, correct);
  return correct[0] / static_cast<double>(dataset.size());
}

void run() {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  const auto train_set = ddp::load_fashion_mnist(ddp::DataSplit::kTrain);
  const auto test_set = ddp::load_fashion_mnist(ddp::DataSplit::kTest);
  Model model;
  ddp::DistributedDataParallel ddp(
      group, model.parameters(),
      {.nominal_samples = static_cast<double>(kGlobalBatch) / group->world_size()});
  const ddp::EpochPlan plan = plan_of(train_set, *group, true);
  const std::uint32_t order = plan.fingerprint();
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    Batch batch(train_set, plan.batch(step));
    train_step(model, batch, order, ddp);
    if (group->rank() == 0 && ((step + 1) % 100 == 0 || step + 1 == plan.steps())) {
      std::printf("step %lld of %lld: loss %.6f\n", static_cast<long long>(step + 1),
                  static_cast<long long>(plan.steps()), ddp.summary().metrics[0].mean());
    }
  }
  const double test_accuracy = accuracy(model, test_set, *group);
  if (group->rank() == 0) std::printf("test accuracy %.2f %%\n", 100 * test_accuracy);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    ddp::record_error(error);
    std::fprintf(stderr, "bring_your_own_gradients: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
