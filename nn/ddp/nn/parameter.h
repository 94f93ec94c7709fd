// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Optimizer;

// Who makes of the gradients that it was bound to what an optimizer is to step with: ranks that add
// theirs up, say.
class GradientOwner {
 public:
  virtual void step(Optimizer& optimizer) = 0;

 protected:
  ~GradientOwner() = default;
};

// A named tensor that is trained, and its gradient. Either may be bound to memory of the caller,
// for instance to a place in a flat bucket that is all-reduced: backward then writes there.
class Parameter {
 public:
  Parameter(std::string name, Tensor value);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Tensor& value() const { return value_; }

  // Same shape, dtype and device as the value. Its memory is allocated, zeroed, when this is first
  // called, so that a parameter that gets bound never owns any.
  [[nodiscard]] const Tensor& grad();

  // True from the first write of a gradient until clear_grad(). While it is false the content of
  // grad() is left over: backward overwrites it and an optimizer leaves the parameter alone.
  [[nodiscard]] bool has_grad() const { return has_grad_; }
  void mark_grad_written() { has_grad_ = true; }
  void clear_grad() { has_grad_ = false; }

  // Copies what is there now into `memory` and uses `memory` from then on; the caller keeps it
  // alive, and on CUDA orders `stream` before further use. Throws std::invalid_argument unless
  // count, dtype and device agree. A gradient that was never allocated is not copied. With an
  // owner, Optimizer::step() of such parameters is the owner's to do.
  void bind_value(const Buffer& memory, Stream stream = {});
  void bind_grad(const Buffer& memory, Stream stream = {}, GradientOwner* owner = nullptr);
  [[nodiscard]] GradientOwner* grad_owner() const { return grad_owner_; }
  // For an owner that ends, and its memory with it: there is no gradient now, and the next one gets
  // memory of the parameter's own. Nothing happens if another one is the owner by now.
  void unbind_grad(const GradientOwner& owner);

 private:
  void check_binding(const char* what, const Buffer& memory) const;

  std::string name_;
  Tensor value_;
  Tensor grad_;
  GradientOwner* grad_owner_ = nullptr;
  bool grad_is_allocated_ = false;
  bool has_grad_ = false;
};

}  // namespace ddp::nn
