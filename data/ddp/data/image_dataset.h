// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ddp/data/dataset.h"

namespace ddp {

// An input is (pixel / 255 - mean) / stddev.
struct Normalization {
  double mean = 0;
  double stddev = 1;
};

struct LabelledImages {
  std::array<std::int64_t, 3> shape{};  // channels, height, width
  std::vector<std::uint8_t> pixels;     // images, channels, rows, columns; the last varies fastest
  std::vector<std::uint8_t> labels;     // one an image
  std::vector<Normalization> normalization;  // one a channel
};

// 8-bit images in memory. Inputs are gathered as float32 or float64, normalised in float64.
class ImageDataset final : public Dataset {
 public:
  // Throws std::invalid_argument if the vectors do not fit together.
  explicit ImageDataset(LabelledImages images);

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return data_.shape; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return {}; }
  void gather(std::span<const std::int64_t> indices, const Buffer& inputs,
              const Buffer& labels) const override;

 private:
  [[nodiscard]] std::size_t pixels_per_channel() const;
  [[nodiscard]] std::size_t pixels_per_image() const;
  void check(std::span<const std::int64_t> indices, const Buffer& inputs,
             const Buffer& labels) const;
  template <class T>
  void gather_inputs(std::span<const std::int64_t> indices, std::span<T> inputs) const;

  LabelledImages data_;
  std::vector<std::array<double, 256>> normalized_;  // [channel][pixel]
};

}  // namespace ddp
