// SPDX-License-Identifier: MIT
#include "ddp/nn/ops/matmul.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/product.h"

namespace ddp::nn {
namespace {

// Throws std::invalid_argument unless a is [..., m, k] and b [..., k, n], or [..., n, k].
GemmShape matmul_shape(const Shape& a, const Shape& b, Transpose transpose_b) {
  const std::size_t rank = a.rank();
  const bool is_turned = transpose_b == Transpose::kYes;
  if (rank >= 2 && b.rank() == rank && a[rank - 1] == b[is_turned ? rank - 1 : rank - 2]) {
    const GemmShape shape{a[rank - 2], b[is_turned ? rank - 2 : rank - 1], a[rank - 1]};
    if (a.with(rank - 2, b[rank - 2]).with(rank - 1, b[rank - 1]) == b) return shape;
  }
  throw std::invalid_argument("[nn] matmul: a is " + to_string(a) + ", b " + to_string(b) +
                              ", expected [..., m, k] and " +
                              (is_turned ? "[..., n, k]" : "[..., k, n]"));
}

}  // namespace

Variable scaled_matmul(Tape& tape, const Variable& a, const Variable& b, Transpose transpose_b,
                       double alpha) {
  const GemmShape shape = matmul_shape(a.shape(), b.shape(), transpose_b);
  if (must_narrow(tape, a, b)) {
    return scaled_matmul(tape, narrowed(tape, a), narrowed(tape, b), transpose_b, alpha);
  }
  Context& context = tape.context();
  const auto [m, n, k] = shape;
  Tensor y = context.empty(a.shape().with(a.shape().rank() - 1, n), a.value().dtype());
  context.gemm_batched(a.buffer(), b.buffer(), y.buffer(), shape,
                       {.transpose_b = transpose_b, .alpha = alpha});

  // grad_a = alpha * grad_y b', where b' is the other one of b and its transpose.
  const bool is_turned = transpose_b == Transpose::kYes;
  const Transpose other = is_turned ? Transpose::kNo : Transpose::kYes;
  const auto a_backward = [&context, b = b.value(), m, n, k, other, alpha](
                              const Buffer& grad_y, const GradientTarget& target) {
    context.gemm_batched(grad_y, b.buffer(), target.buffer, {.m = m, .n = k, .k = n},
                         {.transpose_b = other, .alpha = alpha, .beta = beta_of(target.mode)});
  };
  // grad_b = alpha * a' grad_y, or, if b was transposed, that transposed.
  const auto b_backward = [&context, a = a.value(), m, n, k, is_turned, alpha](
                              const Buffer& grad_y, const GradientTarget& target) {
    const GemmOptions options{
        .transpose_a = Transpose::kYes, .alpha = alpha, .beta = beta_of(target.mode)};
    if (is_turned) {
      context.gemm_batched(grad_y, a.buffer(), target.buffer, {.m = n, .n = k, .k = m}, options);
    } else {
      context.gemm_batched(a.buffer(), grad_y, target.buffer, {.m = k, .n = n, .k = m}, options);
    }
  };
  return tape.record(std::move(y), Edge{a, a_backward}, Edge{b, b_backward});
}

Variable matmul(Tape& tape, const Variable& a, const Variable& b) {
  return scaled_matmul(tape, a, b, Transpose::kNo, 1);
}

}  // namespace ddp::nn
