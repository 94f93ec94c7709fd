// SPDX-License-Identifier: MIT
//
// Mixed precision as in torch.autocast. On a Tape that was made with a 16-bit dtype, each operation
// runs in a type that depends on the kind of operation, whatever types its operands have:
//   in the 16-bit type, with float32 sums      products: linear, matmul, conv2d, conv_transpose2d
//   in float32                                 layer norm, softmax and losses; exp, log, softplus,
//                                              square; sum, mean
//   float32 if an operand is, else 16 bits     operations that join operands, such as add
//   in the type of its operand                 all others; batch norms with float32 statistics
// Parameters and their gradients stay float32; parameters are cast once in each pass. The gradient
// of a 16-bit result also has 16 bits. float16 has a small range, so scale the loss with it
// (grad_scaler.h). float64 is never cast.
//
// If a kernel has no 16-bit version (on the CPU none has), its operands are widened and its results
// rounded: the numbers have the same precision, but this is slower than float32. On CUDA, products,
// batch norms, pooling, biases, dropout, transpositions and element-wise functions have one.
//
// An operation takes part by one statement at its begin, in which it calls itself with operands of
// the right type:
//
//   if (must_narrow(tape, x, w)) return product(tape, narrowed(tape, x), narrowed(tape, w));
//   if (must_widen(x)) return normalise(tape, widened(tape, x));
//   if (must_promote(a, b)) return add(tape, widened(tape, a), widened(tape, b));
#pragma once

#include <optional>
#include <string_view>

#include "ddp/nn/tape.h"
#include "ddp/nn/wide_operands.h"

namespace ddp::nn {

// Parses "none", "bf16" or "fp16"; for anything else std::invalid_argument that lists them.
[[nodiscard]] std::optional<DType> parse_amp(std::string_view name);
// The inverse of parse_amp().
[[nodiscard]] std::string_view amp_name(std::optional<DType> type);

// True if autocast is on and would change an operand.
template <class... Variables>
[[nodiscard]] bool must_narrow(const Tape& tape, const Variables&... operands) {
  return tape.autocast() && ((operands.value().dtype() == DType::kFloat32) || ...);
}

// True if an operand has 16 bits.
template <class... Variables>
[[nodiscard]] bool must_widen(const Variables&... operands) {
  return (WideOperands::is_narrow(operands.buffer()) || ...);
}

// True if an operand has 16 bits and another operand has another type.
template <class... Variables>
[[nodiscard]] bool must_promote(const Variable& first, const Variables&... others) {
  return must_widen(first, others...) && ((others.value().dtype() != first.value().dtype()) || ...);
}

// Casts a float32 operand to the autocast type. Any other operand, and an empty optional, is
// returned unchanged.
[[nodiscard]] Variable narrowed(Tape& tape, const Variable& operand);
[[nodiscard]] std::optional<Variable> narrowed(Tape& tape, const std::optional<Variable>& operand);

// Casts a 16-bit operand to float32 and returns any other unchanged.
[[nodiscard]] Variable widened(Tape& tape, const Variable& operand);

}  // namespace ddp::nn
