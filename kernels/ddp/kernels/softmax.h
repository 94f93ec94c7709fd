// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/base/stream.h"
#include "ddp/kernels/shapes.h"

namespace ddp {

// Which columns of a row take part; the others become 0.
enum class SoftmaxMask : std::uint8_t {
  kNone,    // all
  kCausal,  // of a batch of square matrices, in row r of each the columns 0 to r
};

}  // namespace ddp

namespace ddp::cpu {

// y[r, c] = exp(x[r, c]) / the sum of exp(x[r, i]) over the columns i, shifted by the row's maximum
// so that nothing overflows. With kCausal, std::invalid_argument unless the rows are a multiple of
// the columns.
void softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, SoftmaxMask mask);
// grad_x[r, c] = y[r, c] * (grad_y[r, c] - the sum of grad_y[r, i] * y[r, i]), whatever the mask.
void softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      MatrixShape shape);

// y[r, c] = log(softmax(x)[r, c]), also where the latter is too small for its type:
// x[r, c] - m - log(the sum of exp(x[r, i] - m)), with the row's maximum m.
void log_softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape);
// grad_x[r, c] = grad_y[r, c] - exp(y[r, c]) * the sum of grad_y[r, i].
void log_softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                          MatrixShape shape);

}  // namespace ddp::cpu

namespace ddp::cu {

void softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, SoftmaxMask mask,
                     Stream stream);
void softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                      MatrixShape shape, Stream stream);
void log_softmax_forward(const Buffer& x, const Buffer& y, MatrixShape shape, Stream stream);
void log_softmax_backward(const Buffer& y, const Buffer& grad_y, const GradientTarget& grad_x,
                          MatrixShape shape, Stream stream);

}  // namespace ddp::cu
