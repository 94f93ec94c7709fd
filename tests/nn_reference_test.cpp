// SPDX-License-Identifier: MIT
//
// Ten float32 steps of the models against real PyTorch: tests/reference/make_training_reference.py
// says what it ran and what its lines hold.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/random.h"

namespace {

using namespace ddp::nn;

constexpr std::uint64_t kSeed = 11;
constexpr std::size_t kRows = 8;
constexpr std::size_t kPixels = 784;
constexpr double kTolerance = 3e-6;  // the largest difference seen is 6e-7

// The numbers of each line, by what comes before them: "lenet5 grad 3 fc1.bias".
using Reference = std::map<std::string, std::vector<double>>;

Reference read_reference() {
  std::ifstream file(DDP_REFERENCE_DIR "/training_reference.txt");
  Reference reference;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string model, kind, step, name;
    line >> model >> kind >> step;
    std::string key = model + " " + kind + " " + step;
    if (kind != "loss") {
      line >> name;
      key += " " + name;
    }
    std::vector<double>& numbers = reference[key];
    for (double number = 0; line >> number;) numbers.push_back(number);
  }
  return reference;
}

Tensor images_of_step(Context& context, std::size_t step) {
  std::vector<float> values(kRows * kPixels);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double unit = random_unit(kSeed, stream_of("input"), step * values.size() + i);
    values[i] = static_cast<float>(2 * unit - 1);
  }
  return context.from_host<float>(values, {kRows, kPixels});
}

Tensor labels_of_step(Context& context, std::size_t step) {
  std::vector<std::int64_t> labels(kRows);
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::uint64_t bits = random_bits(kSeed, stream_of("label"), step * kRows + row);
    labels[row] = static_cast<std::int64_t>(bits % 10);
  }
  return context.from_host<std::int64_t>(labels, {kRows});
}

// The same choice of a tensor's elements that a line of the reference holds.
std::vector<double> summary_of(std::span<const float> elements, std::size_t step) {
  std::vector<double> summary;
  for (std::size_t i = 0; i < elements.size(); i += step) summary.push_back(elements[i]);
  double sum = 0, squares = 0;
  for (const float element : elements) {
    sum += element;
    squares += double{element} * element;
  }
  summary.push_back(sum);
  summary.push_back(std::sqrt(squares));
  return summary;
}

void check_close(const std::string& key, std::span<const float> elements,
                 const Reference& reference) {
  const std::vector<double>& line = reference.at(key);
  const std::vector<double> expected(line.begin() + 1, line.end());
  const auto values = summary_of(elements, static_cast<std::size_t>(line.front()));
  CAPTURE(key);
  REQUIRE(values.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    worst =
        std::max(worst, std::abs(values[i] - expected[i]) / std::max(1.0, std::abs(expected[i])));
  }
  CHECK(worst <= kTolerance);
}

}  // namespace

TEST_CASE("ten float32 steps of mlp and lenet5 equal PyTorch's to 3e-6", "[nn][torch]") {
  const Reference reference = read_reference();
  const std::string name = GENERATE("mlp", "lenet5");
  Context context;
  const auto model = make_model(name, Scope(context, ddp::DType::kFloat32, kSeed));
  Sgd sgd(context, model->parameters(),
          {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-4});
  Tape tape(context);
  for (std::size_t step = 0; step < 10; ++step) {
    const Variable logits = model->forward(tape, images_of_step(context, step));
    const Variable loss = softmax_cross_entropy(tape, logits, labels_of_step(context, step));
    const std::string step_name = " " + std::to_string(step);
    CHECK(context.to_host<float>(loss.value()).front() ==
          Approx(reference.at(name + " loss" + step_name).front()).epsilon(kTolerance));
    tape.backward(loss);
    for (Parameter* parameter : model->parameters()) {
      check_close(name + " grad" + step_name + " " + parameter->name(),
                  parameter->grad().buffer().as<float>(), reference);
    }
    sgd.step(nullptr);
    for (const Parameter* parameter : model->parameters()) {
      check_close(name + " value" + step_name + " " + parameter->name(),
                  parameter->value().buffer().as<float>(), reference);
    }
  }
}
