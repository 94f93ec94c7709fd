// SPDX-License-Identifier: MIT
//
// What products of an input and a weight share.
#pragma once

#include <stdexcept>
#include <string>

#include "ddp/nn/tape.h"

namespace ddp::nn {

// Throws std::invalid_argument unless both have one dtype. Here, rather than in the kernel, because
// the usual reason is a loader whose batches are of another type than the module.
inline void require_one_dtype(const char* operation, const Variable& x, const Variable& weight) {
  const DType of_x = x.value().dtype(), of_weight = weight.value().dtype();
  if (of_x == of_weight) return;
  throw std::invalid_argument(
      "[nn] " + std::string(operation) + ": x is " + std::string(to_string(of_x)) + ", weight " +
      std::string(to_string(of_weight)) +
      ": the batches (DataLoaderOptions::dtype) and the module's parameters "
      "(its Scope) need one type");
}

// The factor for what a product's target holds already.
inline double beta_of(WriteMode mode) { return mode == WriteMode::kAccumulate ? 1 : 0; }

}  // namespace ddp::nn
