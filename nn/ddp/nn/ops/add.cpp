// SPDX-License-Identifier: MIT
#include "ddp/kernels/add.h"

#include <stdexcept>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  if (must_promote(a, b)) return add(tape, widened(tape, a), widened(tape, b));
  if (a.shape() != b.shape()) {
    throw std::invalid_argument("[nn] add: a is " + to_string(a.shape()) + ", b " +
                                to_string(b.shape()) + ", expected one shape");
  }
  Context& context = tape.context();
  Tensor y = context.empty(a.shape(), a.value().dtype());
  context.run(cpu::add, cu::add, a.buffer(), b.buffer(), y.buffer());
  const auto backward = [&context](const Buffer& grad_y, const GradientTarget& target) {
    if (target.mode == WriteMode::kOverwrite) {
      copy(grad_y, target.buffer, context.stream());
    } else {
      reduce(grad_y, target.buffer, ReduceOp::kSum, context.stream());
    }
  };
  return tape.record(std::move(y), Edge{a, backward}, Edge{b, backward});
}

}  // namespace ddp::nn
