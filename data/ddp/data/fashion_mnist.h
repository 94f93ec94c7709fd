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
// 10000 test images of 28 x 28 in ten classes. Other sets in the same four files work, too
// (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each with or without .gz).
//
// Looks in `data_dir`; if that is empty, in the folder that DDP_FASHION_MNIST names, or where
// Debian's package dataset-fashion-mnist puts the files. Throws FileError that names the file, the
// problem and how to get the file.
[[nodiscard]] ImageDataset load_fashion_mnist(DataSplit split,
                                              const std::filesystem::path& data_dir = {});

}  // namespace ddp
