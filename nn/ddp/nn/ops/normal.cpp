// SPDX-License-Identifier: MIT
#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {

Tensor normal(Tape& tape, const Shape& shape, DType dtype, std::string_view name) {
  Context& context = tape.context();
  const RandomKey& key = tape.random_key();
  const std::uint64_t seed = random_bits(key.seed, stream_of(name), key.step);
  const auto [rows, columns] = as_matrix(shape);
  std::vector<double> draws;
  draws.reserve(shape.count());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint64_t row = key.first_row + r * key.row_stride;
    for (std::size_t c = 0; c < columns; ++c) draws.push_back(random_normal(seed, row, c));
  }
  const Tensor exact = context.from_host(draws, shape);
  Tensor noise = context.empty(shape, dtype);
  cast(exact.buffer(), noise.buffer(), context.stream());
  context.synchronize();  // `exact` goes away
  return noise;
}

}  // namespace ddp::nn
