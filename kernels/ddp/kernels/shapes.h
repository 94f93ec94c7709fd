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

// A contiguous batch whose samples are channels of equally many elements: n x channels x height x
// width, or with one element each n x channels.
struct ChannelShape {
  std::size_t batch = 0;
  std::size_t channels = 0;
  std::size_t plane = 1;  // elements of one channel of one sample

  [[nodiscard]] constexpr std::size_t count() const { return batch * channels * plane; }
  [[nodiscard]] constexpr std::size_t per_channel() const { return batch * plane; }
};

// Of an image, a kernel, a stride.
struct Size2d {
  std::size_t height = 1;
  std::size_t width = 1;

  [[nodiscard]] constexpr std::size_t count() const { return height * width; }
  friend constexpr bool operator==(const Size2d&, const Size2d&) = default;
};

// How often a kernel fits into an (already padded) input. Throws std::invalid_argument that names
// `kernel_name` if it does not fit once, or if a stride is 0.
[[nodiscard]] Size2d windows(const char* kernel_name, const Size2d& input, const Size2d& kernel,
                             const Size2d& stride);

enum class WriteMode : std::uint8_t { kOverwrite, kAccumulate };

// Where a backward kernel puts its result. kOverwrite never reads the memory, which may hold NaN.
struct GradientTarget {
  Buffer buffer;
  WriteMode mode = WriteMode::kOverwrite;
};

}  // namespace ddp
