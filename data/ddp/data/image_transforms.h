// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/data/image_view.h"

namespace ddp {

enum class CropPosition : std::uint8_t { kRandom, kCenter };

// torchvision's RandomCrop(size, padding), or with kCenter its CenterCrop(size). The image is first
// padded with black on all four sides.
struct Crop {
  ImageSize size = {};
  std::int64_t padding = 0;
  CropPosition position = CropPosition::kRandom;
};

// What is done to an image, in this order, before it goes into a batch; a mask gets the same.
// Random choices are functions of (seed, epoch, sample): each epoch shows a sample differently, but
// independently of the number of threads and ranks.
struct ImageTransforms {
  std::optional<Crop> crop = std::nullopt;
  double flip_probability = 0;  // RandomHorizontalFlip(p)
  std::uint64_t seed = 0;

  // The size of the result for an image of that size.
  [[nodiscard]] ImageSize output_size(const ImageSize& image) const {
    return crop ? crop->size : image;
  }
};

// Throws std::invalid_argument, with the values, if a number makes no sense.
void check_transforms(const ImageTransforms& transforms);

// Why an image of that size cannot be cropped; "" if it can.
[[nodiscard]] std::string misfit(const ImageTransforms& transforms, const ImageSize& image);

// The window of sample `sample` that `epoch` shows. The image must have a size that fits.
[[nodiscard]] Window window_of(const ImageTransforms& transforms, const ImageSize& image,
                               std::int64_t epoch, std::int64_t sample);

}  // namespace ddp
