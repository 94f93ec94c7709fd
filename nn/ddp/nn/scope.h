// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ddp/nn/context.h"
#include "ddp/nn/parameter.h"

namespace ddp::nn {

// What a module is built from: where its parameters live, their dtype, the prefix of their names,
// and the seed of their initial values. A value is a function of (seed, full name, index) only;
// float32 values are the rounded float64 ones.
class Scope {
 public:
  Scope(Context& context, DType dtype, std::uint64_t seed)
      : context_(&context), dtype_(dtype), seed_(seed) {}

  // For a child module: Scope for "features" .child("0") names "features.0.weight".
  [[nodiscard]] Scope child(std::string_view name) const;

  // The same scope on another device; its parameters have equal values.
  [[nodiscard]] Scope on(Context& context) const;

  // The module's name: "features.0"; empty for the outermost module.
  [[nodiscard]] const std::string& name() const { return prefix_; }

  // Drawn from U(-bound, bound). std::invalid_argument if the dtype is an integer, as for normal().
  [[nodiscard]] Parameter uniform(std::string_view name, const Shape& shape, double bound) const;
  // Drawn from the normal distribution with mean 0. std::invalid_argument unless `stddev` is finite
  // and 0 or above.
  [[nodiscard]] Parameter normal(std::string_view name, const Shape& shape, double stddev) const;
  // Every element is `value`.
  [[nodiscard]] Parameter constant(std::string_view name, const Shape& shape, double value) const;
  // State that is not trained; it has the scope's dtype unless another one is given.
  [[nodiscard]] NamedTensor buffer(std::string_view name, const Shape& shape, double value) const;
  [[nodiscard]] NamedTensor buffer(std::string_view name, const Shape& shape, double value,
                                   DType dtype) const;

 private:
  [[nodiscard]] std::string full_name(std::string_view name) const;
  // Element i is draw(stream of the name, i).
  template <class Draw>
  [[nodiscard]] Parameter drawn(std::string_view name, const Shape& shape, const Draw& draw) const;

  Context* context_;
  DType dtype_;
  std::uint64_t seed_;
  std::string prefix_;
};

}  // namespace ddp::nn
