// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "ddp/data/dataset.h"
#include "ddp/data/image_transforms.h"

namespace ddp {

// What torchvision's pretrained models take: means and deviations over ImageNet.
inline constexpr std::array<Normalization, 3> kImageNetNormalization = {
    {{.mean = 0.485, .stddev = 0.229},
     {.mean = 0.456, .stddev = 0.224},
     {.mean = 0.406, .stddev = 0.225}}};

struct ImageMaskOptions {
  // One a channel: three read colour, one reads grey.
  std::vector<Normalization> normalization = {kImageNetNormalization.begin(),
                                              kImageNetNormalization.end()};
  ImageTransforms transforms = {};
  int mask_threshold = 1;  // the grey, 1 to 255, from which on a mask's pixel is 1
};

// Segmentation into two classes: DIR/images/NAME.jpg (or .jpeg, .png) with DIR/masks/NAME.png, in
// the order of their names. An input is [channels, height, width], normalised; a label is
// [1, height, width] of the inputs' type, 0 or 1 each, cropped and flipped as its image: what
// binary cross-entropy with logits takes.
//
// Files are decoded whenever they are read, in a DataLoader's workers, and nothing is kept: memory
// holds the batches alone, and the operating system keeps the files if it has room. Nothing is
// resized. Images of several sizes need a crop.
class ImageMaskFolder final : public Dataset {
 public:
  // Reads all files' sizes. Throws FileError that names the file and the reason: an image without a
  // mask or the reverse, two images of one name, sizes that differ where they must not (both are
  // given), no image at all; EnvironmentError in a build without image files;
  // std::invalid_argument for options that make no sense.
  explicit ImageMaskFolder(const std::filesystem::path& directory, ImageMaskOptions options = {});

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(pairs_.size());
  }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return input_shape_; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return label_shape_; }
  [[nodiscard]] DType label_dtype(DType input_dtype) const override { return input_dtype; }

  // Throws FileError that names a file which is damaged, or has another size by now.
  void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
            const Buffer& label) const override;

  [[nodiscard]] const std::filesystem::path& image_path(std::int64_t index) const {
    return pairs_.at(static_cast<std::size_t>(index)).image;
  }

 private:
  struct Pair {
    std::filesystem::path image;
    std::filesystem::path mask;
  };

  void find_pairs(const std::filesystem::path& directory);
  void check_sizes(const Pair& pair, const ImageSize& image, const ImageSize& mask) const;

  ImageMaskOptions options_;
  std::vector<Pair> pairs_;
  ImageSize first_size_;  // of the first image
  std::array<std::int64_t, 3> input_shape_{};
  std::array<std::int64_t, 3> label_shape_{};
  std::vector<PixelTable> image_tables_;
  std::vector<PixelTable> mask_table_;  // one
};

}  // namespace ddp
