// SPDX-License-Identifier: MIT
//
// A trainer with the mistake that argv[1] names, for prove_test.
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/ddp.h"

namespace {

constexpr int kSteps = 5;
constexpr int kBatch = 60;
constexpr int kInputs = 4;

struct Model {
  std::array<double, kInputs> weight;
  std::array<double, 1> bias;
};

double input(int sample, int i) {
  return ddp::random_unit(1, static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(i));
}

double target(int sample) { return 3 * input(sample, 0) - input(sample, 1) + 0.5; }

// The gradient of the mean squared error over the samples.
Model gradient_of(const Model& model, const std::vector<int>& samples) {
  Model result{};
  for (const int sample : samples) {
    double error = model.bias[0] - target(sample);
    for (int i = 0; i < kInputs; ++i) error += model.weight[i] * input(sample, i);
    const double scale = 2 * error / static_cast<double>(samples.size());
    for (int i = 0; i < kInputs; ++i) result.weight[i] += scale * input(sample, i);
    result.bias[0] += scale;
  }
  return result;
}

void write(std::span<const double> values, double factor, const ddp::Buffer& gradient) {
  for (std::size_t i = 0; i < values.size(); ++i) gradient.as<double>()[i] = factor * values[i];
}

void train(const std::string& mistake) {
  const auto group = ddp::init_process_group();
  const int ranks = group->world_size();
  const int own = mistake == "same data" ? 0 : group->rank();
  const int batch = mistake == "batch of a rank" ? kBatch * ranks : kBatch;
  const double seed = mistake == "seed" ? ranks : 1;
  const bool is_odd = mistake == "rate of a rank" && group->rank() == 1;
  const double rate = mistake == "rate" ? 0.1 * ranks : is_odd ? 0.2 : 0.1;
  Model model{{0.1 * seed, 0.2, 0.3, 0.4}, {0.5}};
  ddp::DistributedDataParallel ddp(
      group,
      {{"weight", {kInputs}, ddp::buffer_of(model.weight)},
       {"bias", {1}, ddp::buffer_of(model.bias)}},
      {.nominal_samples = mistake == "factor, short batch" ? kBatch / ranks : 10,
       .fold_scale = mistake == "none, folded",
       .non_finite = mistake == "none, skips" ? ddp::NonFinite::kSkip : ddp::NonFinite::kIgnore});
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int> samples;
    const bool is_short = step == 1 && mistake.ends_with("short batch");
    const int size = is_short ? batch / 2 + 1 : batch;
    for (int i = own; i < size; i += ranks) samples.push_back(step * batch + i);
    double factor = ddp.begin_step({.samples = samples.size()});
    if (mistake.starts_with("factor")) factor = 1;
    if (mistake == "sum") factor *= ranks;
    if (mistake == "divided") factor /= ranks;
    Model gradient = gradient_of(model, samples);
    // Rounding, which depends on the number of ranks, decides what comes out.
    if (mistake == "none, chaotic") {
      for (int i = 0; i < kInputs; ++i) gradient.weight[i] += std::sin(1e17 * model.weight[i]);
    }
    if (mistake == "none, skips" && step == 1) gradient.bias[0] = std::nan("");
    write(gradient.bias, factor, ddp.gradient(1));
    ddp.mark_ready(1, {});
    write(gradient.weight, factor, ddp.gradient(0));
    ddp.mark_ready(0, {});
    ddp.wait({});
    if (!ddp.should_step()) continue;
    const double scale = ddp.gradient_scale() == nullptr ? 1 : *ddp.gradient_scale();
    for (int i = 0; i < kInputs; ++i) {
      model.weight[i] -= rate * scale * ddp.gradient(0).as<double>()[i];
    }
    model.bias[0] -= rate * scale * ddp.gradient(1).as<double>()[0];
  }
  std::printf("trained to the end\n");
}

// A model of one number, whose loss is half its mean squared distance from the samples.
class Mean {
 public:
  explicit Mean(std::shared_ptr<ddp::ProcessGroup> group)
      : rank_(group->rank()),
        ranks_(group->world_size()),
        ddp_(std::move(group), {{"weight", {1}, ddp::buffer_of(weight_)}},
             {.nominal_samples = 10}) {}

  void step(int step, bool is_summed = false) {
    double sum = 0;
    std::size_t samples = 0;
    for (int i = rank_; i < kBatch; i += ranks_, ++samples) {
      sum += weight_[0] - input(step * kBatch + i, 0);
    }
    const double factor = ddp_.begin_step({.samples = samples}) * (is_summed ? ranks_ : 1);
    ddp_.gradient(0).as<double>()[0] = factor * sum / static_cast<double>(samples);
    ddp_.mark_ready(0);
    ddp_.wait();
    weight_[0] -= 0.1 * ddp_.gradient(0).as<double>()[0];
  }

 private:
  std::array<double, 1> weight_ = {2};
  int rank_;
  int ranks_;
  ddp::DistributedDataParallel ddp_;
};

// Like a GAN, whose generator makes one step for every five of its critic.
void train_gan(const std::string& mistake) {
  const auto group = ddp::init_process_group();
  if (mistake == "gan, warm-up") Mean(group).step(0);
  Mean critic(group);
  Mean generator(group);
  const int steps = mistake == "gan, short" ? 4 : 1000;
  const int every = mistake == "gan, rare" ? 50 : mistake == "gan, any order" ? 1 : 5;
  for (int step = 1; step <= steps; ++step) {
    // As if each had a thread of its own.
    const bool is_late = mistake == "gan, any order" && group->world_size() > 1;
    if (!is_late) critic.step(step);
    if (step % every == 0) generator.step(step, mistake == "gan, sum");
    if (is_late) critic.step(step);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string mistake = argc == 2 ? argv[1] : "no engine";
    if (mistake == "no engine") return 0;
    mistake.starts_with("gan") ? train_gan(mistake) : train(mistake);
    return 0;
  } catch (const std::exception& error) {
    ddp::record_error(error);
    std::fprintf(stderr, "prove_worker: %s\n", ddp::describe(error).c_str());
    return 3;
  }
}
