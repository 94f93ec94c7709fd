// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

enum class WeightDecay : std::uint8_t {
  kL2,         // weight_decay * value is added to the gradient: torch.optim.Adam
  kDecoupled,  // the value itself shrinks: torch.optim.AdamW (Loshchilov, Hutter 2019)
};

struct AdamStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // torch.optim.AdamW's default is 0.01
  WeightDecay decay = WeightDecay::kL2;
};

// Throws std::invalid_argument if a beta is not in [0, 1), or eps or weight_decay is negative.
void check_options(const AdamStep& step);

// A parameter and its optimizer state, all of one size; one call has only float32 or float64
// tensors.
struct AdamTensor {
  Buffer value;
  Buffer grad;
  Buffer exp_avg;  // starts as zeros, like exp_avg_sq
  Buffer exp_avg_sq;
  std::int64_t step = 1;  // number of steps of this parameter, including this one
};

}  // namespace ddp

namespace ddp::cpu {

// One pass over each tensor (Kingma, Ba 2015; operations in PyTorch's order), with t the tensor's
// step:
//   g = grad * *grad_scale                             kL2:        g += weight_decay * value
//                                                      kDecoupled: value *= 1 - learning_rate *
//                                                                              weight_decay
//   exp_avg = beta1 * exp_avg + (1 - beta1) * g
//   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g^2
//   value -= learning_rate / (1 - beta1^t) * exp_avg
//            / (sqrt(exp_avg_sq) / sqrt(1 - beta2^t) + eps)
// `grad_scale` may be null (1); on CUDA it is device memory. Throws std::invalid_argument if sizes
// or dtypes disagree, a step is below 1, or as check_options does.
void adam_step(std::span<const AdamTensor> tensors, const AdamStep& step, const double* grad_scale);

}  // namespace ddp::cpu

namespace ddp::cu {

// One launch updates about seventy tensors.
void adam_step(std::span<const AdamTensor> tensors, const AdamStep& step, const double* grad_scale,
               Stream stream);

}  // namespace ddp::cu
