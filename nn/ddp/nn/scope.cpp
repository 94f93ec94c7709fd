// SPDX-License-Identifier: MIT
#include "ddp/nn/scope.h"

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::nn {

Scope Scope::child(std::string_view name) const {
  Scope scope = *this;
  scope.prefix_ = full_name(name);
  return scope;
}

Scope Scope::on(Context& context) const {
  Scope scope = *this;
  scope.context_ = &context;
  return scope;
}

template <class Draw>
Parameter Scope::drawn(std::string_view name, const Shape& shape, const Draw& draw) const {
  const std::string parameter_name = full_name(name);
  if (!is_floating_point(dtype_)) {  // nearly all values would be rounded to 0
    throw std::invalid_argument("[nn] '" + parameter_name + "' gets random initial values, so " +
                                std::string(to_string(dtype_)) +
                                " is not possible: use a floating-point type");
  }
  const std::uint64_t stream = stream_of(parameter_name);
  std::vector<double> draws(shape.count());
  for (std::size_t i = 0; i < draws.size(); ++i) draws[i] = draw(stream, i);
  const Tensor exact = context_->from_host<double>(draws, shape);
  Tensor value = Tensor::zeros(shape, dtype_, context_->device());
  cast(exact.buffer(), value.buffer(), context_->stream());
  context_->synchronize();  // `exact` goes away
  return {parameter_name, std::move(value)};
}

Parameter Scope::uniform(std::string_view name, const Shape& shape, double bound) const {
  return drawn(name, shape, [&](std::uint64_t stream, std::size_t i) {
    return bound * (2 * random_unit(seed_, stream, i) - 1);
  });
}

Parameter Scope::normal(std::string_view name, const Shape& shape, double stddev) const {
  if (!(stddev >= 0 && std::isfinite(stddev))) {
    throw std::invalid_argument("[nn] the standard deviation of '" + full_name(name) + "' is " +
                                std::to_string(stddev) + ", but it must be finite and 0 or above");
  }
  return drawn(name, shape, [&](std::uint64_t stream, std::size_t i) {
    return stddev * random_normal(seed_, stream, i);
  });
}

Parameter Scope::constant(std::string_view name, const Shape& shape, double value) const {
  NamedTensor filled = buffer(name, shape, value);
  return {std::move(filled.name), std::move(filled.value)};
}

NamedTensor Scope::buffer(std::string_view name, const Shape& shape, double value) const {
  return buffer(name, shape, value, dtype_);
}

NamedTensor Scope::buffer(std::string_view name, const Shape& shape, double value,
                          DType dtype) const {
  Tensor tensor = Tensor::zeros(shape, dtype, context_->device());
  fill(tensor.buffer(), value, context_->stream());
  return {full_name(name), std::move(tensor)};
}

std::string Scope::full_name(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
}

}  // namespace ddp::nn
