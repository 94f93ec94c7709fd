// SPDX-License-Identifier: MIT
#include "ddp/kernels/columns.h"

#include "ddp/kernels/detail/columns_checks.h"
#include "ddp/kernels/detail/write_each.h"

namespace ddp::cpu {
namespace {

template <class T>
void write_row(const T* source, T* target, std::size_t count, WriteMode mode) {
  detail::write_each(target, mode, count, [=](std::size_t c) { return source[c]; });
}

}  // namespace

void put_columns(const Buffer& part, const GradientTarget& whole, const ColumnRange& range) {
  detail::check_columns("put_columns", part, whole.buffer, range);
  detail::dispatch_float("put_columns", part.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t r = 0; r < range.whole.rows; ++r) {
      write_row(static_cast<const T*>(part.data) + r * range.count,
                static_cast<T*>(whole.buffer.data) + r * range.whole.columns + range.first,
                range.count, whole.mode);
    }
  });
}

void take_columns(const Buffer& whole, const GradientTarget& part, const ColumnRange& range) {
  detail::check_columns("take_columns", part.buffer, whole, range);
  detail::dispatch_float("take_columns", whole.dtype, [&](auto element) {
    using T = decltype(element);
    for (std::size_t r = 0; r < range.whole.rows; ++r) {
      write_row(static_cast<const T*>(whole.data) + r * range.whole.columns + range.first,
                static_cast<T*>(part.buffer.data) + r * range.count, range.count, part.mode);
    }
  });
}

}  // namespace ddp::cpu
