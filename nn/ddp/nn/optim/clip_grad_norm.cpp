// SPDX-License-Identifier: MIT
#include "ddp/nn/optim/clip_grad_norm.h"

#include <vector>

#include "ddp/kernels/grad_norm.h"
#include "ddp/nn/optim/null_pointers.h"
#include "ddp/nn/optim/scaled_gradients.h"

namespace ddp::nn {

ClippedNorm clip_grad_norm(Context& context, std::span<Parameter* const> parameters,
                           double max_norm, const double* grad_scale) {
  refuse_null_pointers("clip_grad_norm", parameters);
  if (grad_scale == nullptr) refuse_scaled_gradients("nn::clip_grad_norm", parameters);
  std::vector<Buffer> grads;
  for (Parameter* parameter : parameters) {
    if (parameter->has_grad()) grads.push_back(parameter->grad().buffer());
  }
  const Tensor partials = context.empty({grad_norm_partials(grads)}, DType::kFloat64);
  ClippedNorm clipped{context.empty({}, DType::kFloat64), context.empty({}, DType::kFloat64)};
  context.run(cpu::clip_grad_norm, cu::clip_grad_norm, std::span<const Buffer>(grads), max_norm,
              grad_scale,
              ClippedGradients{clipped.norm.buffer(), clipped.scale.buffer(), partials.buffer()});
  return clipped;
}

}  // namespace ddp::nn
