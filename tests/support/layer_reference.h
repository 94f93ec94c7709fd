// SPDX-License-Identifier: MIT
//
// The C++ counterpart of tests/reference/make_layer_reference.py: a layer's output for an input
// that both draw, and the gradients that follow from given gradients of that output.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/module.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/scope.h"
#include "support/reference.h"

namespace ddp::test {

// Draws `first`, `first` + 1, ... of the stream `name`, uniform in (-1, 1).
inline std::vector<double> reference_draws(const std::string& name, std::size_t first,
                                           std::size_t count) {
  constexpr std::uint64_t kSeed = 5;
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 2 * ddp::random_unit(kSeed, ddp::stream_of(name), first + i) - 1;
  }
  return values;
}

inline nn::Tensor to_tensor(nn::Context& context, const std::vector<double>& values,
                            const nn::Shape& shape, DType dtype) {
  if (dtype == DType::kFloat64) return context.from_host<double>(values, shape);
  return context.from_host<float>(std::vector<float>(values.begin(), values.end()), shape);
}

// A scalar whose gradient with respect to y is `weights`, by default draws.
inline nn::Variable weighted_sum(nn::Tape& tape, const nn::Variable& y,
                                 const std::string& name = "weights") {
  const std::size_t count = y.value().count();
  const DType dtype = y.value().dtype();
  nn::Context& context = tape.context();
  return nn::linear(tape, y.reshaped({1, count}),
                    to_tensor(context, reference_draws(name, 0, count), {1, count}, dtype),
                    nn::Tensor::zeros({1}, dtype, context.device()));
}

class LayerRun {
 public:
  LayerRun(std::string name, const nn::Shape& shape, DType dtype)
      : name_(std::move(name)),
        shape_(shape),
        dtype_(dtype),
        reference_(read_reference(DDP_REFERENCE_DIR "/layer_reference.txt", 2)),
        tape_(context_) {}

  [[nodiscard]] nn::Scope scope() { return {context_, dtype_, 0}; }
  [[nodiscard]] nn::Tape& tape() { return tape_; }

  [[nodiscard]] nn::Tensor input(std::size_t batch, double scale = 1) {
    const std::size_t count = shape_.count();
    std::vector<double> values = reference_draws("x " + name_, batch * count, count);
    for (double& value : values) value = scale * (3 * value + 1);
    return to_tensor(context_, values, shape_, dtype_);
  }

  void set_parameters(nn::Module& layer) {
    for (nn::Parameter* parameter : layer.parameters()) {
      const nn::Tensor& value = parameter->value();
      const nn::Tensor drawn = to_tensor(
          context_, reference_draws(parameter->name(), 0, value.count()), value.shape(), dtype_);
      copy(drawn.buffer(), value.buffer(), context_.stream());
    }
  }

  void check(const std::string& what, const nn::Tensor& tensor) {
    CAPTURE(name_, what);
    const double tolerance = dtype_ == DType::kFloat64 ? 1e-12 : 1e-5;
    const std::vector<double> values =
        tensor.dtype() == DType::kInt64 ? integers(tensor) : to_doubles(context_, tensor);
    const std::vector<double>& expected = reference_.at(name_ + " " + what);
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    CHECK_THAT(values, Catch::Matchers::Approx(expected).margin(tolerance * largest).epsilon(0));
  }

  // Checks the output, gradients and buffers of the layer for that batch.
  void check_last(nn::Module& layer, std::size_t batch) {
    nn::Parameter x("x", input(batch));
    const nn::Variable y = layer.forward(tape_, tape_.watch(x));
    check("y", y.value());
    static_cast<void>(tape_.backward(weighted_sum(tape_, y, "grad " + name_)));
    check("grad_x", x.grad());
    for (nn::Parameter* parameter : layer.parameters()) {
      check("grad_" + parameter->name(), parameter->grad());
    }
    for (const nn::NamedTensor& buffer : layer.buffers()) check(buffer.name, buffer.value);
  }

 private:
  [[nodiscard]] std::vector<double> integers(const nn::Tensor& tensor) const {
    const std::vector<std::int64_t> elements = context_.to_host<std::int64_t>(tensor);
    return {elements.begin(), elements.end()};
  }

  std::string name_;
  nn::Shape shape_;
  DType dtype_;
  Reference reference_;
  nn::Context context_;
  nn::Tape tape_;
};

}  // namespace ddp::test
