// SPDX-License-Identifier: MIT
#include "ddp/kernels/mask_overlap.h"

#include "ddp/nn/ops.h"

namespace ddp::nn {

Tensor mask_overlap(Context& context, const Tensor& logits, const Tensor& target) {
  Tensor counts = context.empty({2}, DType::kInt64);
  context.run(cpu::mask_overlap, cu::mask_overlap, logits.buffer(), target.buffer(),
              counts.buffer());
  return counts;
}

}  // namespace ddp::nn
