// SPDX-License-Identifier: MIT
#include "ddp/nn/wide_operands.h"

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/context.h"

namespace ddp::nn {

Buffer WideOperands::operator()(const Buffer& operand) {
  if (!is_narrow(operand)) return operand;
  for (const Pair& pair : pairs_) {
    const bool is_same = pair.narrow.data == operand.data && pair.narrow.count == operand.count;
    if (is_same && operand.count > 0) return pair.wide.buffer();
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
