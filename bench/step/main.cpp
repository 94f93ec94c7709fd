// SPDX-License-Identifier: MIT
//
// What a training step of a model costs alone, in a world of one: forward, loss, backward and SGD
// on data that is already there.
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cxxopts.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/random.h"
#include "support/blas.h"
#include "support/pinning.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp::bench;
using namespace ddp::nn;

constexpr std::size_t kPixels = 784;
constexpr std::size_t kClasses = 10;

struct Options {
  std::vector<std::string> models;
  int rounds;
  int steps;  // timed together
  std::size_t batch;
  ddp::DType dtype;
};

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_step",
                          "Milliseconds of a training step on the CPU, for images of 28 x 28");
  auto add = parser.add_options();
  add("models", "models of the factory",
      cxxopts::value<std::vector<std::string>>()->default_value("mlp,lenet5"));
  add("rounds", "interleaved repeats", cxxopts::value<int>()->default_value("300"));
  add("steps", "steps timed together", cxxopts::value<int>()->default_value("1"));
  add("batch-size", "samples a step", cxxopts::value<std::size_t>()->default_value("64"));
  add("dtype", "float32 or float64", cxxopts::value<std::string>()->default_value("float32"));
  add("h,help", "print this help");
  const auto parsed = parser.parse(argc, argv);
  if (parsed.count("help") > 0) {
    std::puts(parser.help().c_str());
    return std::nullopt;
  }
  return Options{.models = parsed["models"].as<std::vector<std::string>>(),
                 .rounds = parsed["rounds"].as<int>(),
                 .steps = parsed["steps"].as<int>(),
                 .batch = parsed["batch-size"].as<std::size_t>(),
                 .dtype = parsed["dtype"].as<std::string>() == "float64" ? ddp::DType::kFloat64
                                                                         : ddp::DType::kFloat32};
}

// A model in training on one batch, again and again.
class Training {
 public:
  Training(const std::string& name, const Options& options)
      : model_(make_model(name, Scope(context_, options.dtype, 0))),
        sgd_(context_, model_->parameters(), {.learning_rate = 1e-3, .momentum = 0.9}),
        images_(images(options)),
        labels_(labels(options.batch)) {}

  void step() {
    const Variable loss = softmax_cross_entropy(tape_, model_->forward(tape_, images_), labels_);
    tape_.backward(loss);
    sgd_.step(nullptr);
  }

 private:
  Tensor images(const Options& options) {
    std::vector<double> values(options.batch * kPixels);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * random_unit(0, 1, i) - 1;
    if (options.dtype == ddp::DType::kFloat64) {
      return context_.from_host<double>(values, {options.batch, kPixels});
    }
    return context_.from_host<float>(std::vector<float>(values.begin(), values.end()),
                                     {options.batch, kPixels});
  }

  Tensor labels(std::size_t batch) {
    std::vector<std::int64_t> values(batch);
    for (std::size_t i = 0; i < batch; ++i) values[i] = static_cast<std::int64_t>(i % kClasses);
    return context_.from_host<std::int64_t>(values, {batch});
  }

  Context context_;
  Tape tape_{context_};
  std::unique_ptr<Module> model_;
  Sgd sgd_;
  Tensor images_;
  Tensor labels_;
};

double milliseconds_of_step(Training& training, int steps) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) training.step();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count() / steps;
}

void run(const Options& options) {
  const Pinned pinned(usable_cpus().front());
  std::vector<Variant> variants;
  for (const std::string& model : options.models) {
    const auto training = std::make_shared<Training>(model, options);
    variants.push_back({model, [=] { return milliseconds_of_step(*training, options.steps); }});
  }
  interleave(variants, options.rounds);
  std::puts(header_line("bench_step").c_str());
  fmt::print("# Batch {}, {}, one thread; medians of {} interleaved samples of {} step(s)\n",
             options.batch, ddp::to_string(options.dtype), options.rounds, options.steps);
  const Table table({{"model", 8}, {"step(ms)", 9}, {"+-", 4}, {"samples/s", 10}});
  table.print_titles();
  for (const Variant& variant : variants) {
    const Summary time = summarize(variant.samples);
    table.print_row(
        {variant.name, fmt::format("{:.3f}", time.median),
         fmt::format("{:.0f}%", time.spread_percent()),
         fmt::format("{:.0f}", 1000 * static_cast<double>(options.batch) / time.median)});
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_step: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
