// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "ddp/kernels/shapes.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

class Context;

// For kernels that know no 16-bit types: stands for each 16-bit operand with a float32 copy of it,
// and rounds all copies back in the end. Which ones were written is not known; those that only were
// read get back what they had, since float32 holds every 16-bit number. An operand that is passed
// twice has one copy. Any other argument is passed on as it is.
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

  // Writes the 16-bit operands.
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
