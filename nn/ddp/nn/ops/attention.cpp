// SPDX-License-Identifier: MIT
#include <cmath>
#include <stdexcept>
#include <string>

#include "ddp/kernels/softmax.h"
#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/ops/matmul.h"

namespace ddp::nn {
namespace {

Variable masked_softmax(Tape& tape, const Variable& x, SoftmaxMask mask) {
  if (must_widen(x)) return masked_softmax(tape, widened(tape, x), mask);
  Context& context = tape.context();
  const MatrixShape shape = as_rows(x.shape());
  Tensor y = context.empty(x.shape(), x.value().dtype());
  context.run(cpu::softmax_forward, cu::softmax_forward, x.buffer(), y.buffer(), shape, mask);
  const auto backward = [&context, y, shape](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::softmax_backward, cu::softmax_backward, y.buffer(), grad_y, target, shape);
  };
  return tape.record(y, Edge{x, backward});
}

void check_shapes(const Shape& q, const Shape& k, const Shape& v, bool is_causal) {
  const std::size_t rank = q.rank();
  if (rank >= 2 && k.rank() == rank && q.with(rank - 2, k[rank - 2]) == k && v.rank() == rank &&
      k.with(rank - 1, v[rank - 1]) == v && (!is_causal || q == k)) {
    return;
  }
  throw std::invalid_argument(
      "[nn] scaled_dot_product_attention: q is " + to_string(q) + ", k " + to_string(k) + ", v " +
      to_string(v) + ", expected [..., queries, width], [..., keys, width], [..., keys, any]" +
      (is_causal ? " and, if causal, as many queries as keys" : ""));
}

}  // namespace

Variable softmax(Tape& tape, const Variable& x) {
  return masked_softmax(tape, x, SoftmaxMask::kNone);
}

Variable log_softmax(Tape& tape, const Variable& x) {
  if (must_widen(x)) return log_softmax(tape, widened(tape, x));
  Context& context = tape.context();
  const MatrixShape shape = as_rows(x.shape());
  Tensor y = context.empty(x.shape(), x.value().dtype());
  context.run(cpu::log_softmax_forward, cu::log_softmax_forward, x.buffer(), y.buffer(), shape);
  const auto backward = [&context, y, shape](const Buffer& grad_y, const GradientTarget& target) {
    context.run(cpu::log_softmax_backward, cu::log_softmax_backward, y.buffer(), grad_y, target,
                shape);
  };
  return tape.record(y, Edge{x, backward});
}

Variable scaled_dot_product_attention(Tape& tape, const Variable& q, const Variable& k,
                                      const Variable& v, const AttentionOptions& options) {
  check_shapes(q.shape(), k.shape(), v.shape(), options.is_causal);
  const double scale = 1 / std::sqrt(static_cast<double>(as_rows(q.shape()).columns));
  const Variable scores = scaled_matmul(tape, q, k, Transpose::kYes, scale);
  Variable weights =
      masked_softmax(tape, scores, options.is_causal ? SoftmaxMask::kCausal : SoftmaxMask::kNone);
  if (options.dropout_p != 0) weights = dropout(tape, weights, options.dropout_p, options.layer);
  return matmul(tape, weights, v);
}

}  // namespace ddp::nn
