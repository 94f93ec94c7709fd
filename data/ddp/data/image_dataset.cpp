// SPDX-License-Identifier: MIT
#include "ddp/data/image_dataset.h"

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

[[noreturn]] void fail(const std::string& complaint) {
  throw std::invalid_argument("[image_dataset] " + complaint);
}

void require(bool condition, const std::string& complaint) {
  if (!condition) fail(complaint);
}

std::array<double, 256> normalized_pixels(const Normalization& normalization) {
  std::array<double, 256> values{};
  for (std::size_t pixel = 0; pixel < values.size(); ++pixel) {
    values[pixel] =
        (static_cast<double>(pixel) / 255.0 - normalization.mean) / normalization.stddev;
  }
  return values;
}

}  // namespace

ImageDataset::ImageDataset(LabelledImages images) : data_(std::move(images)) {
  for (const std::int64_t size : data_.shape) {
    require(size >= 1, fmt::format("an image has a side or a number of channels of {}", size));
  }
  require(data_.pixels.size() / pixels_per_image() == data_.labels.size() &&
              data_.pixels.size() % pixels_per_image() == 0,
          fmt::format("{} pixels and {} labels, with {} pixels an image", data_.pixels.size(),
                      data_.labels.size(), pixels_per_image()));
  require(
      data_.normalization.size() == static_cast<std::size_t>(data_.shape[0]),
      fmt::format("{} normalizations for {} channels", data_.normalization.size(), data_.shape[0]));
  for (const Normalization& channel : data_.normalization) {
    require(channel.stddev > 0, fmt::format("stddev is {}, not above 0", channel.stddev));
    normalized_.push_back(normalized_pixels(channel));
  }
}

std::int64_t ImageDataset::size() const { return static_cast<std::int64_t>(data_.labels.size()); }

std::size_t ImageDataset::pixels_per_channel() const {
  return static_cast<std::size_t>(data_.shape[1]) * static_cast<std::size_t>(data_.shape[2]);
}

std::size_t ImageDataset::pixels_per_image() const {
  return static_cast<std::size_t>(data_.shape[0]) * pixels_per_channel();
}

void ImageDataset::gather(std::span<const std::int64_t> indices, const Buffer& inputs,
                          const Buffer& labels) const {
  check(indices, inputs, labels);
  if (inputs.dtype == DType::kFloat32) {
    gather_inputs(indices, inputs.as<float>());
  } else {
    gather_inputs(indices, inputs.as<double>());
  }
  const auto out = labels.as<std::int64_t>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    out[i] = data_.labels[static_cast<std::size_t>(indices[i])];
  }
}

template <class T>
void ImageDataset::gather_inputs(std::span<const std::int64_t> indices, std::span<T> inputs) const {
  T* out = inputs.data();
  for (const std::int64_t index : indices) {
    const std::uint8_t* pixel =
        data_.pixels.data() + static_cast<std::size_t>(index) * pixels_per_image();
    for (const std::array<double, 256>& values : normalized_) {
      for (std::size_t i = 0; i < pixels_per_channel(); ++i) {
        *out++ = static_cast<T>(values[*pixel++]);
      }
    }
  }
}

// Comes with every batch, so that a complaint is only written when there is one.
void ImageDataset::check(std::span<const std::int64_t> indices, const Buffer& inputs,
                         const Buffer& labels) const {
  check_indices("[image_dataset]", indices, size());
  if (inputs.dtype != DType::kFloat32 && inputs.dtype != DType::kFloat64) {
    fail(fmt::format("inputs are {}, neither float32 nor float64", to_string(inputs)));
  }
  if (inputs.count != indices.size() * pixels_per_image() || inputs.device != kCpuDevice) {
    fail(fmt::format("inputs are {}, but {} images of {} pixels go to the CPU", to_string(inputs),
                     indices.size(), pixels_per_image()));
  }
  if (labels.count != indices.size() || labels.dtype != DType::kInt64 ||
      labels.device != kCpuDevice) {
    fail(fmt::format("labels are {} instead of int64[{}] on cpu", to_string(labels),
                     indices.size()));
  }
}

}  // namespace ddp
