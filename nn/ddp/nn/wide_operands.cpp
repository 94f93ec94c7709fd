// SPDX-License-Identifier: MIT
#include "ddp/nn/wide_operands.h"

#include <stdexcept>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/context.h"

namespace ddp::nn {

Buffer WideOperands::operator()(const Buffer& operand) {
  if (!is_narrow(operand)) return operand;
  for (const Pair& pair : pairs_) {
    if (pair.narrow.data != operand.data || operand.count == 0) continue;
    if (pair.narrow.count != operand.count) {
      throw std::logic_error("[nn] WideOperands: two operands overlap");
    }
    return pair.wide.buffer();
  }
  const Tensor wide = context_.empty({operand.count}, DType::kFloat32);
  cast(operand, wide.buffer(), context_.stream());
  pairs_.push_back({operand, wide});
  return wide.buffer();
}

void WideOperands::round_back() {
  for (const Pair& pair : pairs_) cast(pair.wide.buffer(), pair.narrow, context_.stream());
}

}  // namespace ddp::nn
