// SPDX-License-Identifier: MIT
//
// Mixed precision as torch.autocast does it. On a Tape made with a 16-bit dtype each operation runs
// in the type that suits it, whatever type its operands have:
//   in the 16-bit type, summed up in float32   products: linear, conv2d, conv_transpose2d
//   in float32                                 normalisations, softmax and losses
//                                              (PyTorch rounds what batch norms return)
//   in the widest of its operands' types       what joins several, such as sums
//   in the type of its operand                 all others
// Parameters stay float32, and so do their gradients; they are cast once a pass. The gradient of a
// 16-bit result has 16 bits, too: with float16, whose range is small, scale the loss
// (grad_scaler.h). float64 is never cast.
//
// Where a kernel knows no 16-bit type, on the CPU none does, its operands are widened and its
// results rounded: numbers of the same precision, but more slowly than in float32.
//
// An operation takes part by one statement at its begin, by which it calls itself with operands of
// the right type. The three kinds:
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

// "none", "bf16" or "fp16"; std::invalid_argument that lists them for anything else.
[[nodiscard]] std::optional<DType> parse_amp(std::string_view name);
// The other way round.
[[nodiscard]] std::string_view amp_name(std::optional<DType> type);

// Autocast is on and would change an operand.
template <class... Variables>
[[nodiscard]] bool must_narrow(const Tape& tape, const Variables&... operands) {
  return tape.autocast() && ((operands.value().dtype() == DType::kFloat32) || ...);
}

// An operand has 16 bits.
template <class... Variables>
[[nodiscard]] bool must_widen(const Variables&... operands) {
  return (WideOperands::is_narrow(operands.buffer()) || ...);
}

// One has 16 bits, and another has another type.
template <class... Variables>
[[nodiscard]] bool must_promote(const Variable& first, const Variables&... others) {
  return must_widen(first, others...) && ((others.value().dtype() != first.value().dtype()) || ...);
}

// A float32 operand in the autocast type, any other as it is; none for none.
[[nodiscard]] Variable narrowed(Tape& tape, const Variable& operand);
[[nodiscard]] std::optional<Variable> narrowed(Tape& tape, const std::optional<Variable>& operand);

// A 16-bit operand in float32, any other as it is.
[[nodiscard]] Variable widened(Tape& tape, const Variable& operand);

}  // namespace ddp::nn
