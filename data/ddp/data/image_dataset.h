// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ddp/data/dataset.h"
#include "ddp/data/image_transforms.h"

namespace ddp {

struct LabelledImages {
  std::array<std::int64_t, 3> shape{};  // channels, height, width
  std::vector<std::uint8_t> pixels;     // images, channels, rows, columns; the last varies fastest
  std::vector<std::uint8_t> labels;     // one per image
  std::vector<Normalization> normalization;  // one per channel
};

// 8-bit images in memory with a class each. Inputs are float32 or float64, normalised in float64.
class ImageDataset final : public Dataset {
 public:
  // Throws std::invalid_argument if the vectors do not fit together or the transforms do not fit
  // the images.
  explicit ImageDataset(LabelledImages images, const ImageTransforms& transforms = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return input_shape_; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return {}; }
  [[nodiscard]] DType label_dtype(DType) const override { return DType::kInt64; }
  void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
            const Buffer& label) const override;

 private:
  [[nodiscard]] ImageSize image_size() const { return {data_.shape[1], data_.shape[2]}; }
  [[nodiscard]] ImageView image(std::int64_t index) const;

  LabelledImages data_;
  ImageTransforms transforms_;
  std::array<std::int64_t, 3> input_shape_{};
  std::vector<PixelTable> tables_;  // one per channel
};

}  // namespace ddp
