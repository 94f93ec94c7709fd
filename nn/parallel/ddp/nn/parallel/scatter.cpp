// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/scatter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::nn {
namespace {

// A tensor seen from one of its dimensions: `outer` blocks of `size` rows of `inner` elements.
struct View {
  std::size_t outer = 1;
  std::size_t size = 0;
  std::size_t inner = 1;
};

View view_of(const Shape& shape, std::size_t dim) {
  View view{.size = shape[dim]};
  for (std::size_t i = 0; i < dim; ++i) view.outer *= shape[i];
  for (std::size_t i = dim + 1; i < shape.rank(); ++i) view.inner *= shape[i];
  return view;
}

void copy_between(Context& from, const Buffer& source, Context& to, const Buffer& target) {
  if (source.count == 0) return;
  if (!from.device().is_cuda() && !to.device().is_cuda()) {
    std::memcpy(target.data, source.data, source.size_bytes());
    return;
  }
  from.synchronize();
  Context& side = to.device().is_cuda() ? to : from;
  const cu::DeviceGuard guard(side.device());
  cu::copy_async(target.data, source.data, source.size_bytes(), side.stream());
  side.synchronize();
}

}  // namespace

std::vector<Piece> chunk(std::size_t size, std::size_t parts) {
  const std::size_t length = std::max<std::size_t>((size + parts - 1) / parts, 1);
  std::vector<Piece> pieces;
  for (std::size_t begin = 0; begin < size; begin += length) {
    pieces.push_back({begin, std::min(length, size - begin)});
  }
  if (pieces.empty()) pieces.push_back({});
  return pieces;
}

void transfer(Context& from, const Buffer& source, Context& to, const GradientTarget& target) {
  if (target.mode == WriteMode::kOverwrite) return copy_between(from, source, to, target.buffer);
  if (from.device() == to.device()) {
    from.synchronize();
    reduce(source, target.buffer, ReduceOp::kSum, to.stream());
    to.synchronize();
    return;
  }
  const Tensor copy = to.empty({source.count}, source.dtype);
  copy_between(from, source, to, copy.buffer());
  reduce(copy.buffer(), target.buffer, ReduceOp::kSum, to.stream());
}

Tensor take_piece(Context& from, const Tensor& source, std::size_t dim, const Piece& piece,
                  Context& to) {
  const View view = view_of(source.shape(), dim);
  Tensor result = to.empty(source.shape().with(dim, piece.count), source.dtype());
  const std::size_t row = piece.count * view.inner;
  for (std::size_t i = 0; i < view.outer; ++i) {
    const std::size_t offset = (i * view.size + piece.begin) * view.inner;
    copy_between(from, source.buffer().slice(offset, row), to, result.buffer().slice(i * row, row));
  }
  return result;
}

void put_piece(Context& from, const Tensor& source, Context& to, const Tensor& target,
               std::size_t dim, const Piece& piece) {
  const View view = view_of(target.shape(), dim);
  const std::size_t row = piece.count * view.inner;
  for (std::size_t i = 0; i < view.outer; ++i) {
    const std::size_t offset = (i * view.size + piece.begin) * view.inner;
    copy_between(from, source.buffer().slice(i * row, row), to, target.buffer().slice(offset, row));
  }
}

}  // namespace ddp::nn
