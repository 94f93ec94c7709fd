// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>

#include "ddp/data/data_split.h"
#include "ddp/data/image_dataset.h"

namespace ddp {

// Mean and standard deviation over the pixels of the training set.
inline constexpr Normalization kFashionMnistNormalization{.mean = 0.2860, .stddev = 0.3530};

inline constexpr int kFashionMnistClasses = 10;

// Zalando's Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist): 60000 training and
// 10000 test images of 28 x 28 in ten classes; other sets in the same four files work as well
// (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each with or without .gz).
//
// Looks in `data_dir`, or if that is empty in the environment's DDP_FASHION_MNIST, or where
// Debian's package dataset-fashion-mnist puts the files. Throws FileError that names the file, what
// is wrong with it and how to get it.
[[nodiscard]] ImageDataset load_fashion_mnist(DataSplit split,
                                              const std::filesystem::path& data_dir = {});

}  // namespace ddp
