// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "ddp/base/buffer.h"

namespace ddp {

// A contiguous row-major matrix; for activations, one sample a row.
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;

  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
};

enum class WriteMode : std::uint8_t { kOverwrite, kAccumulate };

// Where a backward kernel puts its result. kOverwrite never reads the memory, which may hold NaN.
struct GradientTarget {
  Buffer buffer;
  WriteMode mode = WriteMode::kOverwrite;
};

}  // namespace ddp
