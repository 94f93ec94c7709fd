// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "ddp/data/dataset.h"
#include "ddp/data/image_transforms.h"

namespace ddp {

// Means and deviations over ImageNet, as torchvision's pretrained models expect.
inline constexpr std::array<Normalization, 3> kImageNetNormalization = {
    {{.mean = 0.485, .stddev = 0.229},
     {.mean = 0.456, .stddev = 0.224},
     {.mean = 0.406, .stddev = 0.225}}};

struct ImageMaskOptions {
  // One for each channel: three read colour, one reads grey.
  std::vector<Normalization> normalization = {kImageNetNormalization.begin(),
                                              kImageNetNormalization.end()};
  ImageTransforms transforms = {};
  int mask_threshold = 1;  // 1 to 255: mask pixels of at least this grey become 1
};

// A dataset for segmentation into two classes: DIR/images/NAME.jpg (or .jpeg, .png) with
// DIR/masks/NAME.png, in the order of the names. An input is [channels, height, width], normalised.
// A label is [1, height, width] of the inputs' type, each element 0 or 1, cropped and flipped like
// its image; binary cross-entropy with logits takes it.
//
// Files are decoded each time they are read, in the DataLoader's workers, and are not kept: memory
// holds only the batches; the operating system may cache the files. Images are not resized. Images
// of different sizes need a crop.
class ImageMaskFolder final : public Dataset {
 public:
  // Reads the sizes of all files. Throws FileError that names the file and the reason: an image has
  // no mask or a mask no image, two images have the same name, sizes differ that must be equal, or
  // there is no image at all. Throws EnvironmentError in a build without image support, and
  // std::invalid_argument for invalid options.
  explicit ImageMaskFolder(const std::filesystem::path& directory, ImageMaskOptions options = {});

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(pairs_.size());
  }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return input_shape_; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return label_shape_; }
  [[nodiscard]] DType label_dtype(DType input_dtype) const override { return input_dtype; }

  // Throws FileError that names the file if it is damaged or its size has changed.
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
  ImageSize first_size_;  // size of the first image
  std::array<std::int64_t, 3> input_shape_{};
  std::array<std::int64_t, 3> label_shape_{};
  std::vector<PixelTable> image_tables_;
  std::vector<PixelTable> mask_table_;  // one table: a mask has one channel
};

}  // namespace ddp
