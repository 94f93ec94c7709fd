// SPDX-License-Identifier: MIT
#include "ddp/nn/parameter.h"

#include <stdexcept>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::nn {

Parameter::Parameter(std::string name, Tensor value)
    : name_(std::move(name)), value_(std::move(value)) {}

const Tensor& Parameter::grad() {
  if (!grad_is_allocated_) {
    grad_ = Tensor::zeros(value_.shape(), value_.dtype(), value_.device());
    grad_is_allocated_ = true;
  }
  return grad_;
}

void Parameter::bind_value(const Buffer& memory, Stream stream) {
  check_binding("value", memory);
  copy(value_.buffer(), memory, stream);
  value_ = Tensor::view(memory, value_.shape());
}

void Parameter::bind_grad(const Buffer& memory, Stream stream, GradientOwner* owner,
                          std::size_t index) {
  check_binding("gradient", memory);
  if (grad_is_allocated_) copy(grad_.buffer(), memory, stream);
  grad_ = Tensor::view(memory, value_.shape());
  grad_owner_ = owner;
  grad_index_ = index;
  grad_is_allocated_ = true;
}

void Parameter::unbind_grad(const GradientOwner& owner) {
  if (grad_owner_ != &owner) return;
  grad_ = {};
  grad_owner_ = nullptr;
  grad_is_allocated_ = false;
  has_grad_ = false;
}

void Parameter::check_binding(const char* what, const Buffer& memory) const {
  const Buffer& value = value_.buffer();
  if (memory.count == value.count && memory.dtype == value.dtype && memory.device == value.device) {
    return;
  }
  throw std::invalid_argument("[nn] binding the " + std::string(what) + " of " + name_ + ": got " +
                              to_string(memory) + ", expected " + to_string(value));
}

}  // namespace ddp::nn
