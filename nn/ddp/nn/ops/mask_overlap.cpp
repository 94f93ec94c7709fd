// SPDX-License-Identifier: MIT
#include "ddp/kernels/mask_overlap.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/ops.h"

namespace ddp::nn {

Tensor mask_overlap(Context& context, const Tensor& logits, const Tensor& target) {
  if (logits.shape() != target.shape()) {
    throw std::invalid_argument("[nn] mask_overlap: logits are " + to_string(logits.shape()) +
                                ", target " + to_string(target.shape()) + ", expected one shape");
  }
  Tensor counts = context.empty({2}, DType::kInt64);
  context.run(cpu::mask_overlap, cu::mask_overlap, logits.buffer(), target.buffer(),
              counts.buffer());
  return counts;
}

}  // namespace ddp::nn
