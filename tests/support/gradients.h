// SPDX-License-Identifier: MIT
//
// Compares gradients with central differences in float64, whose error is about h^2 = 1e-10 plus
// rounding.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/nn/tape.h"

namespace ddp::test {

inline nn::Tensor labels_for(nn::Context& context, std::size_t rows, std::size_t classes) {
  std::vector<std::int64_t> labels(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    labels[r] = static_cast<std::int64_t>((3 * r + 1) % classes);
  }
  return context.from_host<std::int64_t>(labels, {rows});
}

inline nn::Tensor uniform_tensor(nn::Context& context, const nn::Shape& shape) {
  std::vector<double> values(shape.count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * ddp::random_unit(1, 2, i) - 1;
  return context.from_host<double>(values, shape);
}

using Loss = std::function<nn::Variable(nn::Tape&)>;

inline double value_of(nn::Context& context, const Loss& loss) {
  nn::Tape tape(context, nn::Recording::kOff);
  return context.to_host<double>(loss(tape).value()).front();
}

inline double central_difference(nn::Context& context, const Loss& loss, double& element) {
  constexpr double kStep = 1e-5;
  const double middle = element;
  element = middle + kStep;
  const double above = value_of(context, loss);
  element = middle - kStep;
  const double below = value_of(context, loss);
  element = middle;
  return (above - below) / (2 * kStep);
}

// Compares the backward of `loss` with central differences, for every `every`th element of each
// parameter.
inline void check_gradients(nn::Context& context, const Loss& loss,
                            const std::vector<nn::Parameter*>& parameters, std::size_t every = 1) {
  nn::Tape tape(context);
  REQUIRE(tape.backward(loss(tape)).size() == parameters.size());
  for (nn::Parameter* parameter : parameters) {
    const auto values = parameter->value().buffer().as<double>();
    const auto gradients = parameter->grad().buffer().as<double>();
    for (std::size_t i = 0; i < values.size(); i += every) {
      CAPTURE(parameter->name(), i);
      CHECK(gradients[i] == Approx(central_difference(context, loss, values[i])).margin(1e-8));
    }
  }
}

}  // namespace ddp::test
