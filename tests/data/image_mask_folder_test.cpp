// SPDX-License-Identifier: MIT
#include "ddp/data/image_mask_folder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/image_file.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/files.h"
#include "support/image_files.h"
#include "support/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddp::Image;
using ddp::ImageMaskFolder;
using ddp::ImageMaskOptions;
using ddp::ImageSize;
using ddp::test::error_of;
using ddp::test::write_bytes;
using Values = std::vector<double>;

// A directory with the empty folders images and masks.
class Folder {
 public:
  Folder() {
    fs::create_directory(images());
    fs::create_directory(masks());
  }

  [[nodiscard]] const fs::path& path() const { return directory_.path(); }
  [[nodiscard]] fs::path images() const { return directory_ / "images"; }
  [[nodiscard]] fs::path masks() const { return directory_ / "masks"; }

  void add(const std::string& name, const Image& image, const Image& mask) const {
    write_png(images() / (name + ".png"), image);
    write_png(masks() / (name + ".png"), mask);
  }

  // The error message of loading the folder, which must be a FileError.
  [[nodiscard]] std::string error(const ImageMaskOptions& options = {}) const {
    try {
      const ImageMaskFolder folder(path(), options);
    } catch (const ddp::FileError& error) {
      return error.what();
    }
    return "";
  }

 private:
  ddp::test::TemporaryDirectory directory_;
};

Image constant(ImageSize size, std::int64_t channels, std::uint8_t value) {
  Image image{.size = size, .channels = channels, .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(size.height * size.width * channels), value);
  return image;
}

// Adds images whose red equals the mask's value, which remains true whatever transform is applied
// to both.
void add_twins(const Folder& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const Image image = ddp::test::gradient({6 + i % 3, 5}, 3);
    Image mask = constant(image.size, 1, 0);
    for (std::size_t pixel = 0; pixel < mask.pixels.size(); ++pixel) {
      mask.pixels[pixel] = static_cast<std::uint8_t>(image.pixels[3 * pixel] > 60 ? 255 : 0);
    }
    folder.add("twin" + std::to_string(10 + i), image, mask);
  }
}

ImageMaskOptions crop_and_flip() {
  return {.normalization = {{}, {}, {}},
          .transforms = {
              .crop = ddp::Crop{.size = {4, 4}, .padding = 1}, .flip_probability = 0.5, .seed = 3}};
}

struct Sample {
  Values input;
  Values label;
};

Sample read(const ddp::Dataset& dataset, std::int64_t index, std::int64_t epoch = 0) {
  Sample sample{Values(ddp::elements_of(dataset.input_shape())),
                Values(ddp::elements_of(dataset.label_shape()))};
  dataset.gather(std::vector<std::int64_t>{index}, ddp::buffer_of(sample.input),
                 ddp::buffer_of(sample.label), epoch);
  return sample;
}

// All inputs and labels that the ranks' loaders deliver, in the order of the global batches.
Values delivered(const ddp::Dataset& dataset, int num_workers, int world_size) {
  std::vector<std::pair<std::int64_t, Values>> parts;
  const std::size_t sizes[] = {ddp::elements_of(dataset.input_shape()),
                               ddp::elements_of(dataset.label_shape())};
  for (int rank = 0; rank < world_size; ++rank) {
    ddp::DataLoader loader(dataset, {.dtype = ddp::DType::kFloat64, .num_workers = num_workers});
    loader.start(ddp::ExactSampler({.dataset_size = dataset.size(),
                                    .world_size = world_size,
                                    .rank = rank,
                                    .global_batch_size = 4})
                     .plan({.epoch = 1}));
    while (const auto batch = loader.next()) {
      for (std::int64_t i = 0; i < batch->count; ++i) {
        auto& values = parts.emplace_back(4 * batch->step + rank + i * world_size, Values()).second;
        for (const auto& [buffer, size] :
             {std::pair(batch->inputs, sizes[0]), std::pair(batch->labels, sizes[1])}) {
          const auto part = buffer.slice(static_cast<std::size_t>(i) * size, size).as<double>();
          values.insert(values.end(), part.begin(), part.end());
        }
      }
    }
  }
  std::sort(parts.begin(), parts.end());
  Values all;
  for (const auto& [place, values] : parts) all.insert(all.end(), values.begin(), values.end());
  return all;
}

}  // namespace

TEST_CASE("images are paired with masks by name, in the order of names", "[data][masks]") {
  const Folder folder;
  folder.add("b", constant({2, 3}, 3, 255), constant({2, 3}, 1, 0));
  folder.add("a", constant({2, 3}, 3, 0), constant({2, 3}, 1, 255));
  write_bytes(folder.images() / "c.JPG", ddp::test::jpeg_of(constant({2, 3}, 3, 128)));
  write_png(folder.masks() / "c.png", constant({2, 3}, 3, 1));  // a colour mask of 0 and 1
  write_bytes(folder.images() / ".hidden", "");

  const ImageMaskFolder dataset(folder.path());
  REQUIRE(dataset.size() == 3);
  CHECK(dataset.image_path(2) == folder.images() / "c.JPG");
  const auto shape_of = [](std::span<const std::int64_t> shape) {
    return std::vector<std::int64_t>(shape.begin(), shape.end());
  };
  CHECK(shape_of(dataset.input_shape()) == std::vector<std::int64_t>{3, 2, 3});
  CHECK(shape_of(dataset.label_shape()) == std::vector<std::int64_t>{1, 2, 3});
  CHECK(dataset.label_dtype(ddp::DType::kFloat32) == ddp::DType::kFloat32);

  const Sample a = read(dataset, 0);
  CHECK(a.label == Values(6, 1.0));
  CHECK(a.input[0] == -0.485 / 0.229);
  CHECK(a.input[6] == -0.456 / 0.224);
  CHECK(a.input[12] == -0.406 / 0.225);
  const Sample b = read(dataset, 1);
  CHECK(b.label == Values(6, 0.0));
  CHECK(b.input[5] == (1 - 0.485) / 0.229);
  CHECK(read(dataset, 2).label == Values(6, 1.0));
}

TEST_CASE("the threshold decides which pixels are in a mask", "[data][masks]") {
  const Folder folder;
  Image mask = constant({1, 4}, 1, 0);
  mask.pixels = {0, 1, 127, 128};
  folder.add("a", constant({1, 4}, 1, 51), mask);
  const ImageMaskFolder any(folder.path(), {.normalization = {{}}});
  CHECK(read(any, 0).label == Values{0, 1, 1, 1});
  CHECK(read(any, 0).input == Values(4, 0.2));
  const ImageMaskFolder half(folder.path(), {.normalization = {{}}, .mask_threshold = 128});
  CHECK(read(half, 0).label == Values{0, 0, 0, 1});
}

TEST_CASE("a mask is cropped and flipped like its image", "[data][masks]") {
  const Folder folder;
  add_twins(folder, 9);
  const ImageMaskFolder dataset(folder.path(), crop_and_flip());
  int differing = 0;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      const auto [input, label] = read(dataset, index, epoch);
      REQUIRE(label.size() == 16);
      for (std::size_t i = 0; i < 16; ++i) REQUIRE(label[i] == (input[i] > 60 / 255.0 ? 1 : 0));
      differing += label == read(dataset, index, 0).label ? 0 : 1;
    }
  }
  CHECK(differing > 30);
}

TEST_CASE("batches of images and masks do not depend on workers or ranks", "[data][masks]") {
  const Folder folder;
  add_twins(folder, 10);
  const ImageMaskFolder dataset(folder.path(), crop_and_flip());
  const Values expected = delivered(dataset, 0, 1);
  REQUIRE(expected.size() == 10 * (3 * 16 + 16));
  for (const int num_workers : {0, 1, 3}) {
    for (const int world_size : {1, 2}) {
      CAPTURE(num_workers, world_size);
      CHECK(delivered(dataset, num_workers, world_size) == expected);
    }
  }
}

TEST_CASE("an inconsistent folder is an error that names the file", "[data][masks]") {
  const Folder folder;
  CHECK_THAT(folder.error(), Contains("images: holds no images"));
  folder.add("a", constant({4, 4}, 3, 1), constant({4, 4}, 1, 0));
  CHECK(folder.error().empty());
  const auto with_file = [&](const fs::path& path, const Image& image) {
    write_png(path, image);
    const std::string error = folder.error();
    fs::remove(path);
    return error;
  };
  const Image other = constant({3, 5}, 3, 1);
  CHECK_THAT(with_file(folder.images() / "b.png", other),
             StartsWith("[image_mask_folder] " + (folder.images() / "b.png").string()) &&
                 Contains("has no mask masks/b.png"));
  CHECK_THAT(with_file(folder.masks() / "b.png", other),
             Contains("masks/b.png: belongs to no image"));
  CHECK_THAT(with_file(folder.images() / "a.jpg", other),
             Contains("has the same name as ") && Contains("a.png") && Contains("a.jpg"));
  CHECK_THAT(with_file(folder.images() / "b.bmp", other),
             Contains("b.bmp: its name does not end in .jpg or .jpeg or .png"));
  CHECK_THAT(with_file(folder.masks() / "b.jpg", other), Contains("does not end in .png"));

  folder.add("b", other, constant({4, 4}, 1, 0));
  CHECK_THAT(folder.error(),
             Contains("masks/b.png: is 4 x 4 (height x width), but its image is 3 x 5"));
  folder.add("b", other, constant({3, 5}, 1, 0));
  CHECK_THAT(folder.error(),
             Contains("images/b.png: is 3 x 5 (height x width), but ") &&
                 Contains("a.png is 4 x 4: with a crop, images may differ in size"));
  CHECK(folder.error({.transforms = {.crop = ddp::Crop{.size = {3, 4}}}}).empty());
  CHECK_THAT(folder.error({.transforms = {.crop = ddp::Crop{.size = {4, 4}}}}),
             Contains("b.png: 3 x 5 with a padding of 0 is smaller than the crop of 4 x 4"));
  fs::remove_all(folder.masks());
  CHECK_THAT(folder.error(), Contains("masks: cannot be listed: No such file"));
}

TEST_CASE("a file damaged after the start is named with its sample", "[data][masks]") {
  const Folder folder;
  for (const char* name : {"a", "b", "c"}) {
    folder.add(name, constant({4, 4}, 3, 1), constant({4, 4}, 1, 0));
  }
  const ImageMaskFolder dataset(folder.path());
  std::string bytes = ddp::test::bytes_of(folder.images() / "c.png");
  write_bytes(folder.images() / "c.png", bytes.substr(0, bytes.size() - 20));
  ddp::DataLoader loader(dataset, {.num_workers = 2});
  loader.start(
      ddp::ExactSampler(
          {.dataset_size = 3, .world_size = 1, .rank = 0, .global_batch_size = 1, .shuffle = false})
          .plan({}));
  CHECK(loader.next());
  CHECK(loader.next());
  CHECK(error_of([&] { (void)loader.next(); }) ==
        "[dataset] cannot read sample 2 of 3 in epoch 0: [image_file] " +
            (folder.images() / "c.png").string() + ": the file ends early");
  folder.add("c", constant({4, 5}, 3, 1), constant({4, 5}, 1, 0));
  CHECK_THAT(error_of([&] { (void)read(dataset, 2); }), Contains("c.png: is 4 x 5"));
}

TEST_CASE("invalid options are refused", "[data][masks]") {
  const auto error = [](const ImageMaskOptions& options) {
    return error_of([&] { const ImageMaskFolder folder("nowhere", options); });
  };
  CHECK(error({.normalization = {{}, {}}}) ==
        "[image_mask_folder] 2 normalizations; colour has 3, grey has 1");
  CHECK(error({.mask_threshold = 0}) == "[image_mask_folder] mask_threshold is 0, not in [1, 255]");
  CHECK_THAT(error({.normalization = {{.mean = 0, .stddev = 0}}}), Contains("stddev is 0"));
  CHECK_THAT(error({.transforms = {.flip_probability = -1}}), Contains("flip_probability is -1"));
  CHECK_THAT(error({}), Contains("nowhere/images: cannot be listed"));
}
