// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/scatter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"

namespace ddp::nn {
namespace {

// A tensor seen from one of its dimensions: `outer` blocks of `size` rows of `inner` elements.
struct View {
  std::size_t outer;
  std::size_t size;
  std::size_t inner;
};

View view_of(const Shape& shape, std::size_t dim) {
  return {shape.product(0, dim), shape[dim], shape.product(dim + 1, shape.rank())};
}

// What is enqueued on `waiter` from now on runs after what is enqueued on `other` so far. The host
// waits instead if `waiter` is the CPU, or has the default stream, since a null stream would be
// that of the event's device.
void order_behind(const Context& waiter, const Context& other) {
  if (&waiter == &other || !other.device().is_cuda()) return;
  if (waiter.stream().native == nullptr) return other.synchronize();
  cu::Event event(other.device());
  event.record(other.stream());
  event.make_wait(waiter.stream());
}

}  // namespace

void copy_all(const Context& from, const Context& to, std::span<const Copy> copies) {
  if (!from.device().is_cuda() && !to.device().is_cuda()) {
    for (const Copy& each : copies) {
      if (each.source.count == 0) continue;
      std::memcpy(each.target.data, each.source.data, each.source.size_bytes());
    }
    return;
  }
  const Context& side = to.device().is_cuda() ? to : from;
  order_behind(side, from);  // what writes the sources
  const cu::DeviceGuard guard(side.device());
  for (const Copy& each : copies) {
    if (each.source.count == 0) continue;
    cu::copy_async(each.target.data, each.source.data, each.source.size_bytes(), side.stream());
  }
  order_behind(&side == &to ? from : to, side);  // what overwrites the sources or reads the targets
}

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
  if (target.mode == WriteMode::kOverwrite) {
    const Copy copy{source, target.buffer};
    return copy_all(from, to, {&copy, 1});
  }
  if (from.device() == to.device()) {
    order_behind(to, from);
    reduce(source, target.buffer, ReduceOp::kSum, to.stream());
    return order_behind(from, to);
  }
  const Tensor received = to.empty({source.count}, source.dtype);
  const Copy copy{source, received.buffer()};
  copy_all(from, to, {&copy, 1});
  reduce(received.buffer(), target.buffer, ReduceOp::kSum, to.stream());
}

Tensor take_piece(Context& from, const Tensor& source, std::size_t dim, const Piece& piece,
                  Context& to) {
  const View view = view_of(source.shape(), dim);
  Tensor result = to.empty(source.shape().with(dim, piece.count), source.dtype());
  const std::size_t row = piece.count * view.inner;
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < view.outer; ++i) {
    const std::size_t offset = (i * view.size + piece.begin) * view.inner;
    copies.push_back({source.buffer().slice(offset, row), result.buffer().slice(i * row, row)});
  }
  copy_all(from, to, copies);
  return result;
}

void put_piece(Context& from, const Tensor& source, Context& to, const Tensor& target,
               std::size_t dim, const Piece& piece) {
  const View view = view_of(target.shape(), dim);
  const std::size_t row = piece.count * view.inner;
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < view.outer; ++i) {
    const std::size_t offset = (i * view.size + piece.begin) * view.inner;
    copies.push_back({source.buffer().slice(i * row, row), target.buffer().slice(offset, row)});
  }
  copy_all(from, to, copies);
}

}  // namespace ddp::nn
