// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/kernels/shapes.h"

namespace ddp::nn {

// The sizes that a model is built for.
struct ImageSizes {
  std::size_t channels = 1;
  Size2d image{28, 28};
  std::size_t classes = 10;  // for segmentation, logits per pixel
};

}  // namespace ddp::nn
