// SPDX-License-Identifier: MIT
#include "ddp/data/image_dataset.h"

#include <fmt/core.h>

#include <utility>

#include "ddp/data/require.h"

namespace ddp {
namespace {

void check_images(const LabelledImages& images) {
  for (const std::int64_t size : images.shape) {
    require(size >= 1,
            fmt::format("[image_dataset] an image's sides and channels must be at least 1, not {}",
                        size));
  }
  const std::size_t pixels = elements_of(images.shape);
  require(
      images.pixels.size() / pixels == images.labels.size() && images.pixels.size() % pixels == 0,
      fmt::format("[image_dataset] {} pixels do not fit {} labels, since an image has {} pixels",
                  images.pixels.size(), images.labels.size(), pixels));
  require(images.normalization.size() == static_cast<std::size_t>(images.shape[0]),
          fmt::format("[image_dataset] there are {} normalizations for {} channels",
                      images.normalization.size(), images.shape[0]));
}

}  // namespace

ImageDataset::ImageDataset(LabelledImages images, const ImageTransforms& transforms)
    : data_(std::move(images)), transforms_(transforms) {
  check_images(data_);
  check_transforms(transforms_);
  const std::string complaint = misfit(transforms_, image_size());
  require(complaint.empty(), "[image_dataset] an image of " + complaint);
  const ImageSize size = transforms_.output_size(image_size());
  input_shape_ = {data_.shape[0], size.height, size.width};
  tables_ = pixel_tables(data_.normalization);
}

std::int64_t ImageDataset::size() const { return static_cast<std::int64_t>(data_.labels.size()); }

ImageView ImageDataset::image(std::int64_t index) const {
  const auto [height, width] = image_size();
  return {.pixels = data_.pixels.data() + index * data_.shape[0] * height * width,
          .size = image_size(),
          .channel_stride = height * width,
          .row_stride = width};
}

void ImageDataset::read(std::int64_t index, std::int64_t epoch, const Buffer& input,
                        const Buffer& label) const {
  write_pixels(image(index), window_of(transforms_, image_size(), epoch, index), tables_, input);
  label.as<std::int64_t>()[0] = data_.labels[static_cast<std::size_t>(index)];
}

}  // namespace ddp
