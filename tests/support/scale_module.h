// SPDX-License-Identifier: MIT
//
// A module for DataParallel in float64, on several devices all of which are the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/parallel/data_parallel.h"

namespace ddp::test {

inline std::vector<Device> cpus(std::size_t count) {
  return std::vector<Device>(count, kCpuDevice);
}

// Multiplies its input by a weight of one.
class Scale final : public nn::Module {
 public:
  explicit Scale(const nn::Scope& scope) : linear(scope, 1, 1) {
    fill(linear.parameters()[0]->value().buffer(), 1);
    fill(linear.parameters()[1]->value().buffer(), 0);
    register_module(linear);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    if (limit < static_cast<double>(input.shape()[0])) throw std::range_error("too many rows");
    return linear.forward(tape, input);
  }

  nn::Linear linear;
  double limit = 100;
};

inline nn::ModuleFactory scale_factory(double first_limit = 100, double other_limit = 100) {
  return [=, made = 0](const nn::Scope& scope) mutable {
    auto module = std::make_unique<Scale>(scope);
    module->limit = made++ == 0 ? first_limit : other_limit;
    return module;
  };
}

// The mean over the rows.
inline nn::Variable mean(nn::Tape& tape, const nn::Variable& output, const nn::Tensor&) {
  const std::vector<double> rows = tape.context().to_host<double>(output.value());
  const double n = static_cast<double>(rows.size());
  const std::vector<double> value = {std::accumulate(rows.begin(), rows.end(), 0.0) / n};
  return tape.record(tape.context().from_host<double>(value, {}),
                     nn::Edge{output, [n](const Buffer& grad, const GradientTarget& target) {
                                for (double& each : target.buffer.as<double>()) {
                                  each = grad.as<double>()[0] / n;
                                }
                              }});
}

}  // namespace ddp::test
