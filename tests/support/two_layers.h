// SPDX-License-Identifier: MIT
//
// Modules of two layers, not both of which take part in every step.
#pragma once

#include <cstddef>

#include "ddp/nn/modules/linear.h"

namespace ddp::test {

inline constexpr std::size_t kFeatures = 3;
inline constexpr std::size_t kClasses = 2;

// Two layers, of which forward uses one.
class Branches final : public nn::Module {
 public:
  explicit Branches(const nn::Scope& scope)
      : left(scope.child("left"), kFeatures, kClasses),
        right(scope.child("right"), kFeatures, kClasses) {
    register_module(left);
    register_module(right);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    return (takes_left ? left : right).forward(tape, input);
  }

  nn::Linear left;
  nn::Linear right;
  bool takes_left = true;
};

// Two layers, of which an empty batch may skip the second.
class Chain final : public nn::Module {
 public:
  explicit Chain(const nn::Scope& scope)
      : first(scope.child("first"), kFeatures, kClasses),
        second(scope.child("second"), kClasses, kClasses) {
    register_module(first);
    register_module(second);
  }
  nn::Variable forward(nn::Tape& tape, const nn::Variable& input) override {
    const nn::Variable middle = first.forward(tape, input);
    return input.value().shape()[0] == 0 ? middle : second.forward(tape, middle);
  }

  nn::Linear first;
  nn::Linear second;
};

}  // namespace ddp::test
