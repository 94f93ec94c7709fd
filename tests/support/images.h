// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ddp/data/image_dataset.h"

namespace ddp::test {

// `count` images of 2 x 2; every pixel and every label of image i is i mod 251.
inline ImageDataset numbered_images(std::int64_t count) {
  std::vector<std::uint8_t> labels;
  std::vector<std::uint8_t> pixels;
  for (std::int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<std::uint8_t>(i % 251));
    pixels.insert(pixels.end(), 4, labels.back());
  }
  return ImageDataset({.shape = {1, 2, 2},
                       .pixels = std::move(pixels),
                       .labels = std::move(labels),
                       .normalization = {{.mean = 0.5, .stddev = 0.25}}});
}

}  // namespace ddp::test
