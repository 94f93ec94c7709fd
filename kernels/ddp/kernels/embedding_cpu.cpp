// SPDX-License-Identifier: MIT
#include "ddp/kernels/embedding.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "ddp/kernels/detail/embedding_checks.h"

namespace ddp::cpu {
namespace {

// Calls f(row of the table, offset of the row in y) for each index, in order.
template <class F>
void for_each_index(const char* kernel, const Buffer& indices, MatrixShape shape, const F& f) {
  std::size_t position = 0;
  for (const std::int64_t index : indices.as<const std::int64_t>()) {
    if (index < 0 || static_cast<std::size_t>(index) >= shape.rows) {
      throw std::invalid_argument(
          fmt::format("[kernels] {}: the index at position {} is {}, expected 0 to {}", kernel,
                      position, index, static_cast<std::int64_t>(shape.rows) - 1));
    }
    f(static_cast<std::size_t>(index) * shape.columns, position * shape.columns);
    ++position;
  }
}

}  // namespace

void embedding_forward(const Buffer& table, const Buffer& indices, const Buffer& y,
                       MatrixShape shape_of_table) {
  detail::check_embedding("embedding_forward", table, indices, y, shape_of_table);
  detail::dispatch_float("embedding_forward", table.dtype, [&](auto element) {
    using T = decltype(element);
    const T* rows = static_cast<const T*>(table.data);
    T* out = static_cast<T*>(y.data);
    for_each_index("embedding_forward", indices, shape_of_table,
                   [&](std::size_t row, std::size_t offset) {
                     std::copy_n(rows + row, shape_of_table.columns, out + offset);
                   });
  });
}

void embedding_backward(const Buffer& grad_y, const Buffer& indices,
                        const GradientTarget& grad_table, MatrixShape shape_of_table) {
  const Buffer& target = grad_table.buffer;
  detail::check_embedding("embedding_backward", target, indices, grad_y, shape_of_table);
  detail::dispatch_float("embedding_backward", target.dtype, [&](auto element) {
    using T = decltype(element);
    if (grad_table.mode == WriteMode::kOverwrite) std::ranges::fill(target.as<T>(), T{0});
    const T* incoming = static_cast<const T*>(grad_y.data);
    T* rows = static_cast<T*>(target.data);
    for_each_index("embedding_backward", indices, shape_of_table,
                   [&](std::size_t row, std::size_t offset) {
                     for (std::size_t c = 0; c < shape_of_table.columns; ++c) {
                       rows[row + c] += incoming[offset + c];
                     }
                   });
  });
}

}  // namespace ddp::cpu
