// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

#include "ddp/base/buffer.h"

namespace ddp {

// The size of one dimension. Converts from any integer, so that {batch.count, 3, 32, 32} is not a
// narrowing conversion; std::invalid_argument if it is negative.
class Extent {
 public:
  template <std::integral Number>
  constexpr Extent(Number size) : size_(static_cast<std::size_t>(size)) {  // NOLINT: converts
    if constexpr (std::signed_integral<Number>) {
      if (size < 0) refuse(size);
    }
  }
  constexpr operator std::size_t() const { return size_; }  // NOLINT: converts

 private:
  [[noreturn]] static void refuse(std::ptrdiff_t size);

  std::size_t size_;
};

// Throws std::invalid_argument that names the sizes.
[[noreturn]] void refuse_element_count(std::span<const std::size_t> sizes);

// The product of the sizes of a shape, which is its number of elements. Throws
// std::invalid_argument if their bytes cannot be counted.
[[nodiscard]] constexpr std::size_t element_count(std::span<const std::size_t> sizes) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / sizeof(double);
  for (const std::size_t size : sizes) {
    if (size == 0) return 0;
  }
  std::size_t count = 1;
  for (const std::size_t size : sizes) {
    if (size > kMost / count) refuse_element_count(sizes);
    count *= size;
  }
  return count;
}

[[nodiscard]] constexpr std::size_t element_count(std::initializer_list<std::size_t> sizes) {
  return element_count(std::span(sizes.begin(), sizes.size()));
}

// A contiguous row-major matrix; for activations, a row is a sample.
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;

  [[nodiscard]] constexpr std::size_t count() const { return element_count({rows, columns}); }
};

// A contiguous batch whose samples are channels of equal size: n x channels x height x width, or n
// x channels, with one element per channel.
struct ChannelShape {
  std::size_t batch = 0;
  std::size_t channels = 0;
  std::size_t plane = 1;  // elements of one channel of one sample

  [[nodiscard]] constexpr std::size_t count() const {
    return element_count({batch, channels, plane});
  }
  [[nodiscard]] constexpr std::size_t per_channel() const { return batch * plane; }
};

// The size of an image or a kernel, a stride or a padding. One number is both, as in PyTorch: 3 is
// {3, 3}. std::invalid_argument if one is negative or above kLargest, so that sums and products of
// two do not overflow.
struct Size2d {
  static constexpr std::size_t kLargest = (std::size_t{1} << 31U) - 1;

  std::size_t height = 1;
  std::size_t width = 1;

  constexpr Size2d() = default;
  template <std::integral Number>
  constexpr Size2d(Number both) : Size2d(both, both) {}  // NOLINT: implicit, see above
  constexpr Size2d(Extent rows, Extent columns) : height(rows), width(columns) {
    if (height > kLargest || width > kLargest) refuse(height, width);
  }

  [[nodiscard]] constexpr std::size_t count() const { return height * width; }
  friend constexpr bool operator==(const Size2d&, const Size2d&) = default;

 private:
  [[noreturn]] static void refuse(std::size_t height, std::size_t width);
};

// The number of positions of a kernel in an (already padded) input. Throws std::invalid_argument
// that names `kernel_name` if the kernel does not fit once or a stride is 0.
[[nodiscard]] Size2d windows(const char* kernel_name, const Size2d& input, const Size2d& kernel,
                             const Size2d& stride);

enum class WriteMode : std::uint8_t { kOverwrite, kAccumulate };

// Where a backward kernel writes its result. With kOverwrite it never reads the memory, which may
// hold NaN.
struct GradientTarget {
  Buffer buffer;
  WriteMode mode = WriteMode::kOverwrite;
};

}  // namespace ddp
