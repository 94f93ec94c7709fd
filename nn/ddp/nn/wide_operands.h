// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/kernels/shapes.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Context;

// For kernels without 16-bit types: replaces each 16-bit operand by a float32 copy, and rounds all
// copies back at the end. It does not know which operands the kernel wrote; those that were only
// read get the same value back, since float32 holds every 16-bit number. An operand that is passed
// twice has one copy; different operands must not overlap. Other arguments are passed unchanged.
class WideOperands {
 public:
  explicit WideOperands(Context& context) : context_(context) {}

  [[nodiscard]] static bool is_narrow(const Buffer& operand) {
    return operand.dtype == DType::kFloat16 || operand.dtype == DType::kBFloat16;
  }
  [[nodiscard]] static bool is_narrow(const GradientTarget& target) {
    return is_narrow(target.buffer);
  }
  template <class T>
  [[nodiscard]] static bool is_narrow(const T& /*no operand*/) {
    return false;
  }

  [[nodiscard]] Buffer operator()(const Buffer& operand);
  [[nodiscard]] GradientTarget operator()(const GradientTarget& target) {
    return {(*this)(target.buffer), target.mode};
  }
  template <class T>
  [[nodiscard]] const T& operator()(const T& other) {
    return other;
  }

  // Writes the copies back to the 16-bit operands.
  void round_back();

 private:
  struct Pair {
    Buffer narrow;
    Tensor wide;
  };

  Context& context_;
  std::vector<Pair> pairs_;
};

}  // namespace ddp::nn
