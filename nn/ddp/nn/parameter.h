// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Optimizer;

// Turns the gradients that are bound to it into those that an optimizer should use, for example by
// summing them over ranks.
class GradientOwner {
 public:
  virtual void step(Optimizer& optimizer) = 0;
  // True if the gradients must be multiplied by a factor that the owner passes to the optimizer, so
  // that they mean nothing without it.
  [[nodiscard]] virtual bool has_scale() const = 0;

 protected:
  ~GradientOwner() = default;
};

// A named tensor that is trained, and its gradient. Either may be bound to the caller's memory, for
// example to a slice of a flat bucket that is all-reduced; backward then writes there.
class Parameter {
 public:
  Parameter(std::string name, Tensor value);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Tensor& value() const { return value_; }

  // How often the value was changed by those who say so, as optimizers and WeightAverage do.
  // Between a forward pass and its backward call mark_value_changed(), too, after writing to the
  // value: a tape then refuses the backward pass, which would take the new values for the old ones.
  // Between two forward passes without a backward, a tape with autocast needs it, too: it casts the
  // value anew only then (it knows of broadcasts and of restore_tensors() by itself).
  [[nodiscard]] std::uint64_t version() const { return version_; }
  void mark_value_changed() { ++version_; }

  // Has the value's shape, dtype and device. Its memory is allocated and zeroed at the first call,
  // so a parameter whose gradient is bound never allocates any.
  [[nodiscard]] const Tensor& grad();

  // True from the first write of a gradient until clear_grad(). While it is false the content of
  // grad() is stale: backward overwrites it, and an optimizer skips the parameter.
  [[nodiscard]] bool has_grad() const { return has_grad_; }
  void mark_grad_written() { has_grad_ = true; }
  void clear_grad() { has_grad_ = false; }

  // False: the parameter is frozen. A tape takes its value as a constant from then on, so that
  // nothing is computed for its gradient, and optimizers leave it alone. True at first.
  [[nodiscard]] bool requires_grad() const { return requires_grad_; }
  void set_requires_grad(bool requires_grad) { requires_grad_ = requires_grad; }

  // Copies the current content into `memory` and uses `memory` from then on. The caller keeps it
  // alive, and on CUDA orders `stream` before further use. Throws std::invalid_argument unless
  // count, dtype and device match. A gradient that was never allocated is not copied. With an
  // owner, Optimizer::step() leaves such parameters to the owner, which knows them by `index`.
  void bind_value(const Buffer& memory, Stream stream = {});
  void bind_grad(const Buffer& memory, Stream stream = {}, GradientOwner* owner = nullptr,
                 std::size_t index = 0);
  [[nodiscard]] GradientOwner* grad_owner() const { return grad_owner_; }
  // True if grad() means something only with its owner's factor.
  [[nodiscard]] bool has_grad_scale() const { return grad_owner_ && grad_owner_->has_scale(); }
  [[nodiscard]] std::size_t grad_index() const { return grad_index_; }
  // For an owner that ends, and its memory with it: there is no gradient now, and the next one gets
  // memory of the parameter's own. Nothing happens if another one is the owner by now.
  void unbind_grad(const GradientOwner& owner);

 private:
  void check_binding(const char* what, const Buffer& memory) const;

  std::string name_;
  Tensor value_;
  Tensor grad_;
  GradientOwner* grad_owner_ = nullptr;
  std::size_t grad_index_ = 0;  // the owner's
  std::uint64_t version_ = 0;
  bool grad_is_allocated_ = false;
  bool has_grad_ = false;
  bool requires_grad_ = true;
};

}  // namespace ddp::nn
