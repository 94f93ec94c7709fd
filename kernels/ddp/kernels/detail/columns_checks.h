// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

#include "ddp/kernels/columns.h"
#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

inline void check_columns(const char* kernel, const Buffer& part, const Buffer& whole,
                          const ColumnRange& range) {
  // Without a sum, which may overflow.
  const std::size_t columns = range.whole.columns;
  if (range.first > columns || range.count > columns - range.first) {
    throw std::invalid_argument("[kernels] " + std::string(kernel) + ": " +
                                std::to_string(range.count) + " columns from column " +
                                std::to_string(range.first) + " on are not within " +
                                std::to_string(columns));
  }
  require(kernel, "whole", whole, like(whole, range.whole.count()));
  require(kernel, "part", part, like(whole, range.whole.rows * range.count));
}

}  // namespace ddp::detail
