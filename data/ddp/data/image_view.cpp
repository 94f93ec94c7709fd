// SPDX-License-Identifier: MIT
#include "ddp/data/image_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "ddp/data/require.h"

namespace ddp {
namespace {

// The columns of a window that lie left of the image, in it, and right of it.
struct Columns {
  std::int64_t before;
  std::int64_t inside;
  std::int64_t after;
};

Columns columns_of(const ImageView& image, const Window& window) {
  const std::int64_t end = window.left + window.size.width;
  const std::int64_t before = std::clamp<std::int64_t>(-window.left, 0, window.size.width);
  const std::int64_t after =
      std::clamp<std::int64_t>(end - image.size.width, 0, window.size.width - before);
  return {before, window.size.width - before - after, after};
}

template <class T>
T* write_row(const std::uint8_t* pixel, std::ptrdiff_t step, const Columns& columns,
             const PixelTable& table, T* out) {
  const auto outside = static_cast<T>(table[0]);
  out = std::fill_n(out, columns.before, outside);
  for (std::int64_t i = 0; i < columns.inside; ++i) {
    *out++ = static_cast<T>(table[*pixel]);
    pixel += step;
  }
  return std::fill_n(out, columns.after, outside);
}

template <class T>
T* write_channel(const ImageView& image, const std::uint8_t* channel, const Window& window,
                 const PixelTable& table, T* out) {
  Columns columns = columns_of(image, window);
  const std::int64_t first = window.left + columns.before;
  const std::int64_t start = window.flipped ? first + columns.inside - 1 : first;
  const std::ptrdiff_t step = window.flipped ? -image.column_stride : image.column_stride;
  if (window.flipped) std::swap(columns.before, columns.after);
  for (std::int64_t row = window.top; row < window.top + window.size.height; ++row) {
    if (row < 0 || row >= image.size.height || columns.inside == 0) {
      out = std::fill_n(out, window.size.width, static_cast<T>(table[0]));
    } else {
      const std::uint8_t* pixel = channel + row * image.row_stride + start * image.column_stride;
      out = write_row(pixel, step, columns, table, out);
    }
  }
  return out;
}

template <class T>
void write(const ImageView& image, const Window& window, std::span<const PixelTable> tables,
           T* out) {
  const std::uint8_t* channel = image.pixels;
  for (const PixelTable& table : tables) {
    out = write_channel(image, channel, window, table, out);
    channel += image.channel_stride;
  }
}

void check_count(const Window& window, std::size_t channels, const Buffer& out) {
  const std::size_t expected = channels * static_cast<std::size_t>(window.size.height) *
                               static_cast<std::size_t>(window.size.width);
  if (out.count == expected) return;
  throw std::invalid_argument(fmt::format("[image_view] {} channels of {} do not fit into {}",
                                          channels, to_string(window.size), to_string(out)));
}

}  // namespace

std::string to_string(const ImageSize& size) {
  return fmt::format("{} x {}", size.height, size.width);
}

std::vector<PixelTable> pixel_tables(std::span<const Normalization> channels) {
  std::vector<PixelTable> tables;
  for (const auto& [mean, stddev] : channels) {
    require(std::isfinite(mean), fmt::format("[image_view] mean is {}, not a finite number", mean));
    require(stddev > 0 && std::isfinite(stddev),
            fmt::format("[image_view] stddev is {}, not a finite number above 0", stddev));
    PixelTable& table = tables.emplace_back();
    for (std::size_t pixel = 0; pixel < table.size(); ++pixel) {
      table[pixel] = (static_cast<double>(pixel) / 255.0 - mean) / stddev;
    }
  }
  return tables;
}

void write_pixels(const ImageView& image, const Window& window, std::span<const PixelTable> tables,
                  const Buffer& out) {
  check_count(window, tables.size(), out);
  if (out.dtype == DType::kFloat32) {
    write(image, window, tables, out.as<float>().data());
  } else if (out.dtype == DType::kFloat64) {
    write(image, window, tables, out.as<double>().data());
  } else {
    throw std::invalid_argument(
        fmt::format("[image_view] pixels become {}, neither float32 nor "
                    "float64",
                    to_string(out)));
  }
}

}  // namespace ddp
