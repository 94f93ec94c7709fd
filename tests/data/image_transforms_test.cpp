// SPDX-License-Identifier: MIT
#include "ddp/data/image_transforms.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "ddp/data/data_loader.h"
#include "ddp/data/image_dataset.h"
#include "ddp/data/subset.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/run_ranks.h"

namespace {

using Catch::Matchers::Contains;
using ddp::CropPosition;
using ddp::ImageSize;
using ddp::ImageTransforms;
using ddp::ImageView;
using ddp::PixelTable;
using ddp::Window;
using ddp::window_of;
using ddp::test::error_of;
using Bits = std::vector<double>;

// Pixels whose value gives their position: 1 + 16 row + column, plus 100 for each channel.
std::vector<std::uint8_t> numbered_pixels(ImageSize size, std::int64_t channels) {
  std::vector<std::uint8_t> pixels;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t row = 0; row < size.height; ++row) {
      for (std::int64_t column = 0; column < size.width; ++column) {
        pixels.push_back(static_cast<std::uint8_t>(1 + 100 * c + 16 * row + column));
      }
    }
  }
  return pixels;
}

ImageView planar(const std::vector<std::uint8_t>& pixels, ImageSize size) {
  return {.pixels = pixels.data(),
          .size = size,
          .channel_stride = size.height * size.width,
          .row_stride = size.width};
}

std::vector<PixelTable> unchanged(std::size_t channels) {
  PixelTable table{};
  for (std::size_t pixel = 0; pixel < table.size(); ++pixel) {
    table[pixel] = static_cast<double>(pixel);
  }
  return std::vector<PixelTable>(channels, table);
}

// The result by the definition in the header, computed pixel by pixel.
Bits expected(const ImageView& image, const Window& window, std::int64_t channels) {
  Bits values;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < window.size.height; ++y) {
      for (std::int64_t x = 0; x < window.size.width; ++x) {
        const std::int64_t row = window.top + y;
        const std::int64_t column = window.left + (window.flipped ? window.size.width - 1 - x : x);
        const bool inside =
            row >= 0 && row < image.size.height && column >= 0 && column < image.size.width;
        values.push_back(inside ? image.pixels[c * image.channel_stride + row * image.row_stride +
                                               column * image.column_stride]
                                : 0);
      }
    }
  }
  return values;
}

template <class T>
std::vector<T> shown(const ImageView& image, const Window& window, std::size_t channels) {
  std::vector<T> out(channels * static_cast<std::size_t>(window.size.height) *
                     static_cast<std::size_t>(window.size.width));
  write_pixels(image, window, unchanged(channels), ddp::buffer_of(out));
  return out;
}

// 40 images of 2 x 5 x 4 with different pixels; the label is the index.
ddp::LabelledImages forty_images() {
  ddp::LabelledImages images{.shape = {2, 5, 4},
                             .pixels = {},
                             .labels = {},
                             .normalization = {{.mean = 0.5, .stddev = 0.25}, {}}};
  for (std::uint8_t i = 0; i < 40; ++i) {
    images.labels.push_back(i);
    for (std::uint8_t pixel = 0; pixel < 40; ++pixel) {
      images.pixels.push_back(static_cast<std::uint8_t>(5 * i + pixel));
    }
  }
  return images;
}

ImageTransforms crop_and_flip() {
  return {.crop = ddp::Crop{.size = {4, 4}, .padding = 2}, .flip_probability = 0.5, .seed = 7};
}

struct Job {
  int num_workers = 0;
  int world_size = 1;
  ddp::DataPosition position = {};
};

// The samples as all ranks together see them, by index.
std::map<std::int64_t, Bits> seen_by(const ddp::Dataset& dataset, const Job& job) {
  std::map<std::int64_t, Bits> seen;
  for (int rank = 0; rank < job.world_size; ++rank) {
    ddp::DataLoader loader(dataset,
                           {.dtype = ddp::DType::kFloat64, .num_workers = job.num_workers});
    loader.start(ddp::ExactSampler({.dataset_size = dataset.size(),
                                    .world_size = job.world_size,
                                    .rank = rank,
                                    .global_batch_size = 6,
                                    .seed = 1})
                     .plan(job.position));
    while (const auto batch = loader.next()) {
      const std::size_t size = ddp::elements_of(dataset.input_shape());
      for (std::size_t i = 0; i < batch->labels.count; ++i) {
        const auto pixels = batch->inputs.slice(i * size, size).as<double>();
        seen[batch->labels.as<std::int64_t>()[i]] = Bits(pixels.begin(), pixels.end());
      }
    }
  }
  return seen;
}

}  // namespace

TEST_CASE("a window shows its part of an image, black beyond the edges", "[data][transforms]") {
  const ImageSize size{3, 4};
  const auto pixels = numbered_pixels(size, 2);
  const ImageView image = planar(pixels, size);
  for (std::int64_t top = -5; top <= 5; ++top) {
    for (std::int64_t left = -6; left <= 6; ++left) {
      for (const ImageSize shape : {ImageSize{1, 1}, ImageSize{2, 3}, ImageSize{5, 7}}) {
        for (const bool flipped : {false, true}) {
          CAPTURE(top, left, to_string(shape), flipped);
          const Window window{.top = top, .left = left, .size = shape, .flipped = flipped};
          REQUIRE(shown<double>(image, window, 2) == expected(image, window, 2));
          const auto floats = shown<float>(image, window, 2);
          REQUIRE(Bits(floats.begin(), floats.end()) == expected(image, window, 2));
        }
      }
    }
  }
}

TEST_CASE("the order of an image's pixels in memory does not matter", "[data][transforms]") {
  const std::vector<std::uint8_t> planes = {1, 2, 3, 4, 11, 12, 13, 14};
  const std::vector<std::uint8_t> interleaved = {1, 11, 2, 12, 3, 13, 4, 14};
  const ImageView image{.pixels = interleaved.data(),
                        .size = {2, 2},
                        .channel_stride = 1,
                        .row_stride = 4,
                        .column_stride = 2};
  const Window window{.size = {2, 2}, .flipped = true};
  CHECK(shown<double>(image, window, 2) == Bits{2, 1, 4, 3, 12, 11, 14, 13});
  CHECK(shown<double>(planar(planes, {2, 2}), window, 2) == shown<double>(image, window, 2));
}

TEST_CASE("all crops and both flips occur about equally often", "[data][transforms]") {
  std::map<std::pair<std::int64_t, std::int64_t>, int> places;
  int flips = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Window window = window_of(crop_and_flip(), {5, 4}, i / 100, i % 100);
    REQUIRE(window.size == ImageSize{4, 4});
    ++places[{window.top, window.left}];
    flips += window.flipped ? 1 : 0;
  }
  REQUIRE(places.size() == 30);  // 6 rows and 5 columns; 4000 / 30 = 133 +- 11 each
  CHECK(places.begin()->first == std::pair<std::int64_t, std::int64_t>{-2, -2});
  CHECK(places.rbegin()->first == std::pair<std::int64_t, std::int64_t>{3, 2});
  for (const auto& [place, count] : places) {
    CHECK(count > 133 - 55);
    CHECK(count < 133 + 55);
  }
  CHECK(flips > kDraws / 2 - 160);
  CHECK(flips < kDraws / 2 + 160);
}

TEST_CASE("a random choice stays the same when another is switched off", "[data][transforms]") {
  ImageTransforms only_flip = crop_and_flip();
  only_flip.crop.reset();
  ImageTransforms only_crop = crop_and_flip();
  only_crop.flip_probability = 0;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const Window both = window_of(crop_and_flip(), {5, 4}, 3, sample);
    CHECK(window_of(only_flip, {5, 4}, 3, sample).flipped == both.flipped);
    CHECK(window_of(only_crop, {5, 4}, 3, sample).top == both.top);
    CHECK(window_of(only_crop, {5, 4}, 3, sample).left == both.left);
    CHECK_FALSE(window_of(only_crop, {5, 4}, 3, sample).flipped);
  }
}

TEST_CASE("a centre crop is where torchvision's is", "[data][transforms]") {
  // int(round((extent - crop) / 2.0)), Python's round
  const std::map<std::int64_t, std::int64_t> tops = {{4, 0}, {5, 0}, {6, 1},  {7, 2},
                                                     {8, 2}, {9, 2}, {11, 4}, {13, 4}};
  for (const auto& [height, top] : tops) {
    CAPTURE(height);
    const ImageTransforms transforms{
        .crop = ddp::Crop{.size = {4, 4}, .position = CropPosition::kCenter}};
    CHECK(window_of(transforms, {height, 6}, 1, 2).top == top);
    CHECK(window_of(transforms, {height, 6}, 1, 2).left == 1);
  }
}

TEST_CASE("transforms are the same for any number of workers and ranks", "[data][transforms]") {
  const ddp::ImageDataset dataset(forty_images(), crop_and_flip());
  const auto expected_bits = seen_by(dataset, {.position = {.epoch = 2}});
  REQUIRE(expected_bits.size() == 40);
  for (const int num_workers : {0, 1, 3}) {
    for (const int world_size : {1, 2, 3}) {
      CAPTURE(num_workers, world_size);
      CHECK(seen_by(dataset, {num_workers, world_size, {.epoch = 2}}) == expected_bits);
    }
  }
  // Also the rest of an epoch after a resume.
  for (const auto& [sample, bits] : seen_by(dataset, {3, 2, {.epoch = 2, .consumed = 17}})) {
    CHECK(bits == expected_bits.at(sample));
  }
}

TEST_CASE("another epoch, seed or sample gives other transforms", "[data][transforms]") {
  const ddp::ImageDataset dataset(forty_images(), crop_and_flip());
  const auto first = seen_by(dataset, {});
  const auto differing = [&](const std::map<std::int64_t, Bits>& other) {
    return std::count_if(other.begin(), other.end(),
                         [&](const auto& entry) { return entry.second != first.at(entry.first); });
  };
  CHECK(differing(seen_by(dataset, {.position = {.epoch = 1}})) > 30);
  ImageTransforms other_seed = crop_and_flip();
  other_seed.seed = 8;
  CHECK(differing(seen_by(ddp::ImageDataset(forty_images(), other_seed), {})) > 30);
  CHECK(differing(seen_by(dataset, {})) == 0);
}

TEST_CASE("a sample of a subset is transformed as in the whole set", "[data][transforms]") {
  const ddp::ImageDataset dataset(forty_images(), crop_and_flip());
  const auto whole = seen_by(dataset, {});
  for (const ddp::Subset& subset : ddp::split(dataset, {0.5, 0.5}, 3)) {
    const auto part = seen_by(subset, {.num_workers = 1});
    REQUIRE(part.size() == 20);
    for (const auto& [sample, bits] : part) CHECK(bits == whole.at(sample));
  }
}

TEST_CASE("transforms come before normalisation, so padding is black", "[data][transforms]") {
  const ddp::ImageDataset dataset(
      {.shape = {1, 1, 1},
       .pixels = {255},
       .labels = {0},
       .normalization = {{.mean = 0.5, .stddev = 0.25}}},
      {.crop = ddp::Crop{.size = {3, 3}, .padding = 1, .position = CropPosition::kCenter}});
  Bits input(9);
  std::vector<std::int64_t> label(1);
  dataset.gather(std::vector<std::int64_t>{0}, ddp::buffer_of(input), ddp::buffer_of(label));
  CHECK(input == Bits{-2, -2, -2, -2, 2, -2, -2, -2, -2});
}

TEST_CASE("invalid transforms are refused with their values", "[data][transforms]") {
  const auto error = [](const ImageTransforms& transforms) {
    return error_of([&] { const ddp::ImageDataset dataset(forty_images(), transforms); });
  };
  CHECK(error({.flip_probability = 1.5}) ==
        "[image_transforms] flip_probability is 1.5, not in [0, 1]");
  CHECK_THAT(error({.crop = ddp::Crop{.size = {0, 4}}}), Contains("the crop's size is 0 x 4"));
  CHECK_THAT(error({.crop = ddp::Crop{.size = {4, 4}, .padding = -1}}),
             Contains("the padding is -1"));
  CHECK(error({.crop = ddp::Crop{.size = {8, 4}, .padding = 1}}) ==
        "[image_dataset] an image of 5 x 4 with a padding of 1 is smaller than the crop of 8 x 4");
  std::vector<float> out(3);
  const std::vector<std::uint8_t> pixels(4);
  CHECK_THAT(
      error_of([&] {
        write_pixels(planar(pixels, {2, 2}), {.size = {2, 2}}, unchanged(1), ddp::buffer_of(out));
      }),
      Contains("1 channels of 2 x 2 do not fit into float32[3]"));
}
