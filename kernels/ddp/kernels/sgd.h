// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

struct SgdStep {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum
};

// Throws std::invalid_argument if momentum or weight_decay is negative, or nesterov lacks momentum.
void check_options(const SgdStep& step);

// A parameter and its optimizer state, all of one size; one call has only float32 or float64
// tensors.
struct SgdTensor {
  Buffer value;
  Buffer grad;
  Buffer momentum_buffer;  // starts as zeros; empty if momentum is 0
};

}  // namespace ddp

namespace ddp::cpu {

// One pass over each tensor, like torch.optim.SGD without dampening:
//   g = grad * *grad_scale + weight_decay * value
//   momentum_buffer = momentum * momentum_buffer + g
//   value -= learning_rate * (nesterov ? g + momentum * momentum_buffer : momentum_buffer)
// Without momentum g itself is used. `grad_scale` may be null (1); on CUDA it is device memory.
// Throws std::invalid_argument if sizes or dtypes disagree, or as check_options does.
void sgd_step(std::span<const SgdTensor> tensors, const SgdStep& step, const double* grad_scale);

}  // namespace ddp::cpu

namespace ddp::cu {

// One launch updates about a hundred tensors.
void sgd_step(std::span<const SgdTensor> tensors, const SgdStep& step, const double* grad_scale,
              Stream stream);

}  // namespace ddp::cu
