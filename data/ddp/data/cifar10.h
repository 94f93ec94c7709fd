// SPDX-License-Identifier: MIT
//
// The binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html). A file is
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
// (https://github.com/kuangliu/pytorch-cifar/issues/19). The often-quoted deviations 0.2023, 0.1994
// and 0.2010 are means of the single images' deviations.
inline constexpr std::array<Normalization, 3> kCifar10Normalization = {
    {{.mean = 0.4914, .stddev = 0.2470},
     {.mean = 0.4822, .stddev = 0.2435},
     {.mean = 0.4465, .stddev = 0.2616}}};

inline constexpr int kCifar10Classes = 10;

// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, from `data_dir` or its folder
// cifar-10-batches-bin (the archive's own). A file with another number of records is read with a
// warning, since it may have been cut short between two records. Training usually crops 32 x 32 at
// random after a padding of 4 and flips half of the images.
//
// Throws FileError that names the file, the problem and how to get the file.
[[nodiscard]] ImageDataset load_cifar10(DataSplit split, const std::filesystem::path& data_dir,
                                        const ImageTransforms& transforms = {});

}  // namespace ddp
