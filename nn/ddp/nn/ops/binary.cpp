// SPDX-License-Identifier: MIT
#include "ddp/kernels/binary.h"

#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/unary.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

Tensor binary(Context& context, const char* name, const Tensor& a, const Tensor& b,
              const BinaryFunction& f) {
  if (a.shape() != b.shape()) {
    throw std::invalid_argument("[nn] " + std::string(name) + ": a is " + to_string(a.shape()) +
                                ", b " + to_string(b.shape()) + ", expected one shape");
  }
  const Tensor y = context.empty(a.shape(), a.dtype());
  context.run_any_float(cpu::binary, cu::binary, a.buffer(), b.buffer(), GradientTarget{y.buffer()},
                        f);
  return y;
}

BackwardFunction passed_on(Context& context) {
  return [&context](const Buffer& grad_y, const GradientTarget& target) {
    if (target.mode == WriteMode::kOverwrite) {
      copy(grad_y, target.buffer, context.stream());
    } else {
      reduce(grad_y, target.buffer, ReduceOp::kSum, context.stream());
    }
  };
}

BackwardFunction negated(Context& context) {
  return [&context](const Buffer& grad_y, const GradientTarget& target) {
    context.run_any_float(cpu::unary_backward, cu::unary_backward, grad_y, grad_y, target,
                          UnaryFunction{UnaryKind::kAffine, -1});
  };
}

// Combines the gradient with the other operand.
BackwardFunction combined(Context& context, const Tensor& other, const BinaryFunction& f) {
  return [&context, other, f](const Buffer& grad_y, const GradientTarget& target) {
    context.run_any_float(cpu::binary, cu::binary, grad_y, other.buffer(), target, f);
  };
}

// Adds b to each part of a that has its shape.
Variable add_to_parts(Tape& tape, const Variable& a, const Variable& b) {
  Context& context = tape.context();
  const std::size_t size = b.value().count();
  const MatrixShape parts{size == 0 ? 0 : a.value().count() / size, size};
  Tensor y = context.empty(a.shape(), a.value().dtype());
  copy(a.buffer(), y.buffer(), context.stream());
  context.run_any_float(cpu::bias_add, cu::bias_add, y.buffer(), b.buffer(), parts);
  const auto to_b = [&context, parts](const Buffer& grad_y, const GradientTarget& target) {
    context.run_any_float(cpu::bias_grad, cu::bias_grad, grad_y, target, parts);
  };
  return tape.record(std::move(y), Edge{b, to_b}, Edge{a, passed_on(context)});
}

}  // namespace

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  if (must_promote(a, b)) return add(tape, widened(tape, a), widened(tape, b));
  if (b.shape().rank() < a.shape().rank() && is_tail(b.shape(), a.shape())) {
    return add_to_parts(tape, a, b);
  }
  Context& context = tape.context();
  return tape.record(binary(context, "add", a.value(), b.value(), {BinaryKind::kSum}),
                     Edge{a, passed_on(context)}, Edge{b, passed_on(context)});
}

Variable sub(Tape& tape, const Variable& a, const Variable& b) {
  if (must_promote(a, b)) return sub(tape, widened(tape, a), widened(tape, b));
  Context& context = tape.context();
  return tape.record(binary(context, "sub", a.value(), b.value(), {BinaryKind::kSum, -1}),
                     Edge{a, passed_on(context)}, Edge{b, negated(context)});
}

Variable mul(Tape& tape, const Variable& a, const Variable& b) {
  if (must_promote(a, b)) return mul(tape, widened(tape, a), widened(tape, b));
  Context& context = tape.context();
  const BinaryFunction product{BinaryKind::kProduct};
  return tape.record(binary(context, "mul", a.value(), b.value(), product),
                     Edge{a, combined(context, b.value(), product)},
                     Edge{b, combined(context, a.value(), product)});
}

Variable div(Tape& tape, const Variable& a, const Variable& b) {
  if (must_promote(a, b)) return div(tape, widened(tape, a), widened(tape, b));
  Context& context = tape.context();
  const Tensor divisor = b.value();
  const Tensor y = binary(context, "div", a.value(), divisor, {BinaryKind::kQuotient});
  const auto to_divisor = [&context, y, divisor](const Buffer& grad_y,
                                                 const GradientTarget& target) {
    const Tensor product = context.empty(y.shape(), y.dtype());
    context.run_any_float(cpu::binary, cu::binary, grad_y, y.buffer(),
                          GradientTarget{product.buffer()},
                          BinaryFunction{BinaryKind::kProduct, -1});
    context.run_any_float(cpu::binary, cu::binary, product.buffer(), divisor.buffer(), target,
                          BinaryFunction{BinaryKind::kQuotient});
  };
  return tape.record(y, Edge{a, combined(context, divisor, {BinaryKind::kQuotient})},
                     Edge{b, to_divisor});
}

}  // namespace ddp::nn
