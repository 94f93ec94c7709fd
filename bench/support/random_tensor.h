// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"

namespace ddp::bench {

// A tensor of uniform numbers in [-1, 1); floating-point types only. To save time, 2^20 draws are
// repeated. Zeros would not do: products of zeros need less power and so run faster.
[[nodiscard]] nn::Tensor random_tensor(nn::Context& context, const nn::Shape& shape,
                                       DType dtype = DType::kFloat32);

}  // namespace ddp::bench
