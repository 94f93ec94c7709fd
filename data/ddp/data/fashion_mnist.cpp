// SPDX-License-Identifier: MIT
#include "ddp/data/fashion_mnist.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/data/idx.h"
#include "ddp/data/input_file.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

fs::path default_directory() {
  const char* given = std::getenv("DDP_FASHION_MNIST");
  return given != nullptr && *given != '\0' ? given : "/usr/share/datasets/fashion-mnist";
}

void check_labels(const fs::path& path, const IdxArray& labels, std::int64_t images) {
  if (labels.shape[0] != images) {
    throw FileError(
        fmt::format("{}: holds {} labels for {} images", path.string(), labels.shape[0], images));
  }
  const auto wrong = std::find_if(labels.values.begin(), labels.values.end(),
                                  [](int label) { return label >= kFashionMnistClasses; });
  if (wrong == labels.values.end()) return;
  throw FileError(fmt::format("{}: label {} of image {} is not in [0, {}]", path.string(), *wrong,
                              wrong - labels.values.begin(), kFashionMnistClasses - 1));
}

ImageDataset load(const fs::path& directory, const std::string& prefix) {
  const fs::path label_path = plain_or_gzipped(directory / (prefix + "-labels-idx1-ubyte"));
  const fs::path image_path = plain_or_gzipped(directory / (prefix + "-images-idx3-ubyte"));
  IdxArray images = read_idx(image_path, 3);
  if (images.shape[0] == 0) throw FileError(image_path.string() + ": has no images");
  IdxArray labels = read_idx(label_path, 1);
  check_labels(label_path, labels, images.shape[0]);
  return ImageDataset({.shape = {1, images.shape[1], images.shape[2]},
                       .pixels = std::move(images.values),
                       .labels = std::move(labels.values),
                       .normalization = {kFashionMnistNormalization}});
}

}  // namespace

ImageDataset load_fashion_mnist(DataSplit split, const fs::path& data_dir) {
  const bool train = split == DataSplit::kTrain;
  try {
    return load(data_dir.empty() ? default_directory() : data_dir, train ? "train" : "t10k");
  } catch (const std::exception&) {
    std::throw_with_nested(FileError(
        fmt::format("[fashion_mnist] cannot load the {} set (its four IDX files are in Debian's "
                    "package dataset-fashion-mnist)",
                    train ? "training" : "test")));
  }
}

}  // namespace ddp
