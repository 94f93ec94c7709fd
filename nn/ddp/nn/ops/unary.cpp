// SPDX-License-Identifier: MIT
#include "ddp/kernels/unary.h"

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

Variable unary(Tape& tape, const Variable& x, const UnaryFunction& f) {
  Context& context = tape.context();
  Tensor y = context.empty(x.shape(), x.value().dtype());
  context.run_any_float(cpu::unary_forward, cu::unary_forward, x.buffer(), y.buffer(), f);
  const Tensor& kept = is_slope_of_value(f.kind) ? y : x.value();
  const auto backward = [&context, kept, f](const Buffer& grad_y, const GradientTarget& target) {
    context.run_any_float(cpu::unary_backward, cu::unary_backward, kept.buffer(), grad_y, target,
                          f);
  };
  return tape.record(y, Edge{x, backward});
}

// For functions whose values soon leave the range of 16 bits.
Variable wide_unary(Tape& tape, const Variable& x, UnaryKind kind) {
  return unary(tape, widened(tape, x), {kind});
}

}  // namespace

Variable abs(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kAbs}); }
Variable exp(Tape& tape, const Variable& x) { return wide_unary(tape, x, UnaryKind::kExp); }
Variable gelu(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kGelu}); }
Variable gelu_tanh(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kGeluTanh}); }
Variable log(Tape& tape, const Variable& x) { return wide_unary(tape, x, UnaryKind::kLog); }
Variable relu(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kRelu}); }
Variable sigmoid(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kSigmoid}); }
Variable silu(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kSilu}); }
Variable softplus(Tape& tape, const Variable& x) {
  return wide_unary(tape, x, UnaryKind::kSoftplus);
}
Variable sqrt(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kSqrt}); }
Variable square(Tape& tape, const Variable& x) { return wide_unary(tape, x, UnaryKind::kSquare); }
Variable tanh(Tape& tape, const Variable& x) { return unary(tape, x, {UnaryKind::kTanh}); }

Variable clamp(Tape& tape, const Variable& x, double low, double high) {
  return unary(tape, x, {UnaryKind::kClamp, low, high});
}
Variable leaky_relu(Tape& tape, const Variable& x, double slope) {
  return unary(tape, x, {UnaryKind::kLeakyRelu, slope});
}
Variable add(Tape& tape, const Variable& x, double term) {
  return unary(tape, x, {UnaryKind::kAffine, 1, term});
}
Variable mul(Tape& tape, const Variable& x, double factor) {
  return unary(tape, x, {UnaryKind::kAffine, factor});
}

}  // namespace ddp::nn
