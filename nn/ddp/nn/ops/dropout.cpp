// SPDX-License-Identifier: MIT
#include "ddp/kernels/dropout.h"

#include "ddp/base/random.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {

Variable dropout(Tape& tape, const Variable& x, double probability, std::uint64_t layer) {
  Context& context = tape.context();
  const RandomKey& key = tape.random_key();
  const DropoutMask mask{.probability = probability,
                         .key = random_bits(key.seed, layer, key.step),
                         .first_row = key.first_row,
                         .row_stride = key.row_stride};
  const MatrixShape shape = as_matrix(x.shape());
  Tensor y = context.empty(x.shape(), x.value().dtype());
  context.run_any_float(cpu::dropout, cu::dropout, x.buffer(), GradientTarget{y.buffer()}, mask,
                        shape);
  const auto backward = [&context, mask, shape](const Buffer& grad_y,
                                                const GradientTarget& target) {
    context.run_any_float(cpu::dropout, cu::dropout, grad_y, target, mask, shape);
  };
  return tape.record(std::move(y), Edge{x, backward});
}

}  // namespace ddp::nn
