// SPDX-License-Identifier: MIT
#include "ddp/kernels/cross_entropy.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

// Not flattened: the pixels of an image of logits would be taken for more classes.
MatrixShape rows_of_classes(const char* operation, const Shape& logits) {
  if (logits.rank() == 2 && logits[1] > 0) return {logits[0], logits[1]};
  throw std::invalid_argument("[nn] " + std::string(operation) + ": the logits are " +
                              to_string(logits) + ", expected [n, classes]");
}

}  // namespace

Variable softmax_cross_entropy(Tape& tape, const Variable& logits, const Tensor& labels,
                               double label_smoothing) {
  if (must_widen(logits)) {
    return softmax_cross_entropy(tape, widened(tape, logits), labels, label_smoothing);
  }
  Context& context = tape.context();
  const MatrixShape shape = rows_of_classes("softmax_cross_entropy", logits.shape());
  const DType dtype = logits.value().dtype();
  const Tensor probabilities = context.empty(logits.shape(), dtype);
  const Tensor row_losses = context.empty({shape.rows}, dtype);
  Tensor loss = context.empty({}, dtype);
  const CrossEntropyResult result{probabilities.buffer(), row_losses.buffer(), loss.buffer()};
  context.run(cpu::softmax_cross_entropy_forward, cu::softmax_cross_entropy_forward,
              logits.buffer(), labels.buffer(), result, shape, label_smoothing);

  const auto backward = [&context, probabilities, labels, shape, label_smoothing](
                            const Buffer& grad_loss, const GradientTarget& target) {
    context.run(cpu::softmax_cross_entropy_backward, cu::softmax_cross_entropy_backward,
                probabilities.buffer(), labels.buffer(), grad_loss, target, shape, label_smoothing);
  };
  return tape.record(std::move(loss), Edge{logits, backward});
}

Tensor count_correct(Context& context, const Tensor& logits, const Tensor& labels, std::size_t k) {
  const MatrixShape shape = rows_of_classes("count_correct", logits.shape());
  Tensor count = context.empty({}, DType::kInt64);
  context.run(cpu::count_correct, cu::count_correct, logits.buffer(), labels.buffer(),
              count.buffer(), shape, k);
  return count;
}

}  // namespace ddp::nn
