// SPDX-License-Identifier: MIT
//
// CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html), of which one file is
//
//   file    := record*                            10000 of them
//   record  := label pixel{3072}
//   label   := 0 .. 9                             one byte
//   pixel   := one byte: 1024 red, 1024 green, 1024 blue, each 32 rows of 32
#pragma once

#include <array>
#include <filesystem>

#include "ddp/data/data_split.h"
#include "ddp/data/image_dataset.h"

namespace ddp {

// Mean and standard deviation over the pixels of the training set
// (https://github.com/kuangliu/pytorch-cifar/issues/19; the deviations 0.2023, 0.1994 and 0.2010
// that are often seen are means of the images' own).
inline constexpr std::array<Normalization, 3> kCifar10Normalization = {
    {{.mean = 0.4914, .stddev = 0.2470},
     {.mean = 0.4822, .stddev = 0.2435},
     {.mean = 0.4465, .stddev = 0.2616}}};

inline constexpr int kCifar10Classes = 10;

// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, from `data_dir` or its folder
// cifar-10-batches-bin (as the archive unpacks). Files of other numbers of records work as well,
// with a warning that tells them: one that is cut short between two looks the same. The usual
// training has a random crop of 32 with a padding of 4, and flips half of the images.
//
// Throws FileError that names the file, what is wrong with it and how to get it.
[[nodiscard]] ImageDataset load_cifar10(DataSplit split, const std::filesystem::path& data_dir,
                                        const ImageTransforms& transforms = {});

}  // namespace ddp
