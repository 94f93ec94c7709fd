// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/data/image_view.h"

namespace ddp {

enum class CropPosition : std::uint8_t { kRandom, kCenter };

// torchvision's RandomCrop(size, padding), or with kCenter its CenterCrop(size). The padding, black
// and on all four sides, comes first.
struct Crop {
  ImageSize size = {};
  std::int64_t padding = 0;
  CropPosition position = CropPosition::kRandom;
};

// What happens to an image on its way into a batch, in this order; a mask goes the same way. The
// random choices are functions of (seed, epoch, sample): each epoch shows a sample differently, and
// alike whatever the number of threads and ranks.
struct ImageTransforms {
  std::optional<Crop> crop = std::nullopt;
  double flip_probability = 0;  // RandomHorizontalFlip(p)
  std::uint64_t seed = 0;

  // The size of what they make of an image of that size.
  [[nodiscard]] ImageSize output_size(const ImageSize& image) const {
    return crop ? crop->size : image;
  }
};

// Throws std::invalid_argument, with the values, if a number makes no sense.
void check_transforms(const ImageTransforms& transforms);

// Why the crop cannot be cut out of an image of that size; "" if it can.
[[nodiscard]] std::string misfit(const ImageTransforms& transforms, const ImageSize& image);

// What `epoch` shows of sample `sample`, an image of that size that fits.
[[nodiscard]] Window window_of(const ImageTransforms& transforms, const ImageSize& image,
                               std::int64_t epoch, std::int64_t sample);

}  // namespace ddp
