// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"

namespace ddp::bench {

// Uniform in [-1, 1); floating-point types only. A mebielement of draws is repeated, so that a
// large tensor is there at once and is no zeros all the same: products of those need less power,
// and run faster.
[[nodiscard]] nn::Tensor random_tensor(nn::Context& context, const nn::Shape& shape,
                                       DType dtype = DType::kFloat32);

}  // namespace ddp::bench
