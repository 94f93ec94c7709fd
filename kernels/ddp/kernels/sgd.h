// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp {

struct SgdStep {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
};

}  // namespace ddp

namespace ddp::cpu {

// One pass, as torch.optim.SGD without dampening and Nesterov does it:
//   g = grad * *grad_scale + weight_decay * value
//   velocity = momentum * velocity + g;  value -= learning_rate * velocity
// `velocity` starts as zeros, which makes the first step PyTorch's; it is empty if momentum is 0
// (then g itself is used). `grad_scale` may be null (1); on CUDA it is device memory.
void sgd_step(const Buffer& value, const Buffer& grad, const Buffer& velocity, const SgdStep& step,
              const double* grad_scale);

}  // namespace ddp::cpu

namespace ddp::cu {

void sgd_step(const Buffer& value, const Buffer& grad, const Buffer& velocity, const SgdStep& step,
              const double* grad_scale, Stream stream);

}  // namespace ddp::cu
