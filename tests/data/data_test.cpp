// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/fashion_mnist.h"
#include "ddp/data/input_file.h"
#include "support/files.h"
#include "support/idx_bytes.h"
#include "support/run_ranks.h"
#include "support/scoped_variable.h"
#include "support/small_sets.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::DataSplit;
using ddp::DType;
using ddp::ImageDataset;
using ddp::test::error_of;
using ddp::test::idx;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

// Four images of 2 x 2 with labels 3 2 1 0; image i has the pixels 4i .. 4i + 3.
ImageDataset four_images() {
  std::vector<std::uint8_t> pixels;
  for (std::uint8_t pixel = 0; pixel < 16; ++pixel) pixels.push_back(pixel);
  return ImageDataset({.shape = {1, 2, 2},
                       .pixels = pixels,
                       .labels = {3, 2, 1, 0},
                       .normalization = {{.mean = 0.5, .stddev = 0.25}}});
}

double normalized(int pixel) { return (pixel / 255.0 - 0.5) / 0.25; }

}  // namespace

TEST_CASE("images are gathered normalised, in the order of the indices", "[data][images]") {
  const ImageDataset dataset = four_images();
  const std::vector<std::int64_t> indices = {2, 0, 2};
  std::vector<float> floats(12);
  std::vector<double> doubles(12);
  std::vector<std::int64_t> labels(3);
  dataset.gather(indices, ddp::buffer_of(floats), ddp::buffer_of(labels));
  dataset.gather(indices, ddp::buffer_of(doubles), ddp::buffer_of(labels));
  CHECK(labels == std::vector<std::int64_t>{1, 3, 1});
  for (std::size_t i = 0; i < 12; ++i) {
    const int pixel = static_cast<int>(4 * indices[i / 4]) + static_cast<int>(i % 4);
    CHECK(doubles[i] == normalized(pixel));
    CHECK(floats[i] == static_cast<float>(normalized(pixel)));
  }
}

TEST_CASE("each channel has its own normalisation", "[data][images]") {
  const ImageDataset dataset(
      {.shape = {2, 1, 1},
       .pixels = {255, 255},
       .labels = {0},
       .normalization = {{.mean = 0, .stddev = 1}, {.mean = 1, .stddev = 2}}});
  std::vector<double> inputs(2);
  std::vector<std::int64_t> labels(1);
  dataset.gather(std::vector<std::int64_t>{0}, ddp::buffer_of(inputs), ddp::buffer_of(labels));
  CHECK(inputs == std::vector<double>{1, 0});
}

TEST_CASE("a shape whose elements cannot be counted is refused", "[data][images]") {
  const std::int64_t huge = std::int64_t{1} << 32;
  const auto error = [](std::int64_t height, std::int64_t width) {
    return error_of([&] {
      const ImageDataset dataset({.shape = {1, height, width},
                                  .pixels = {1},
                                  .labels = {0},
                                  .normalization = {{.mean = 0, .stddev = 1}}});
    });
  };
  CHECK(error(huge, huge) == "[dataset] no sample can have the shape [1, 4294967296, 4294967296]");
  CHECK_THAT(error(-1, 1), Contains("an image's sides and channels must be at least 1, not -1"));
  CHECK(error_of([] {
          (void)ddp::elements_of(std::vector<std::int64_t>{2, -1});
        }) == "[dataset] no sample can have the shape [2, -1]");
}

TEST_CASE("a normalisation that makes no numbers is refused", "[data][images]") {
  const auto error = [](double mean, double stddev) {
    const ddp::Normalization channels[] = {{}, {.mean = mean, .stddev = stddev}};
    return error_of([&] { (void)ddp::pixel_tables(channels); });
  };
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  CHECK(error(0, 0) == "[image_view] stddev is 0, not a finite number above 0");
  CHECK(error(0, nan) == "[image_view] stddev is nan, not a finite number above 0");
  CHECK(error(0, infinity) == "[image_view] stddev is inf, not a finite number above 0");
  CHECK(error(nan, 1) == "[image_view] mean is nan, not a finite number");
  CHECK(error(-infinity, 1) == "[image_view] mean is -inf, not a finite number");
}

TEST_CASE("gather refuses what does not fit", "[data][images]") {
  const ImageDataset dataset = four_images();
  std::vector<float> inputs(4);
  std::vector<std::int64_t> labels(1);
  const auto error = [&](std::int64_t index, const ddp::Buffer& in, const ddp::Buffer& out) {
    return error_of([&] { dataset.gather(std::vector<std::int64_t>{index}, in, out); });
  };
  const ddp::Buffer good_inputs = ddp::buffer_of(inputs);
  const ddp::Buffer good_labels = ddp::buffer_of(labels);
  CHECK(error(4, good_inputs, good_labels) == "[dataset] index 4 is not in [0, 4)");
  CHECK(error(-1, good_inputs, good_labels) == "[dataset] index -1 is not in [0, 4)");
  CHECK_THAT(error(0, good_inputs.slice(0, 3), good_labels),
             Contains("inputs are float32[3] on cpu"));
  CHECK_THAT(error(0, good_inputs, good_inputs), Contains("instead of int64[1] on cpu"));
  std::vector<std::int64_t> integers(4);
  CHECK_THAT(error(0, ddp::buffer_of(integers), good_labels),
             Contains("neither float32 nor float64"));
  CHECK_THROWS_AS(ImageDataset({.shape = {1, 2, 2},
                                .pixels = {1, 2},
                                .labels = {0},
                                .normalization = {{.mean = 0, .stddev = 1}}}),
                  std::invalid_argument);
}

TEST_CASE("a Fashion-MNIST file without images is named", "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  const std::string images = directory / "train-images-idx3-ubyte";
  write_bytes(images, idx({0, 28, 28}, ""));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({0}, ""));
  CHECK_THAT(
      error_of([&] { (void)ddp::load_fashion_mnist(ddp::DataSplit::kTrain, directory.path()); }),
      Catch::EndsWith(": " + images + ": has no images"));
}

TEST_CASE("Fashion-MNIST comes from any directory with its files", "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 1, 2}, std::string(4, '\0')));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({2}, "\x03\x09"));
  const ImageDataset dataset = ddp::load_fashion_mnist(DataSplit::kTrain, directory.path());
  CHECK(dataset.size() == 2);
  CHECK(std::vector<std::int64_t>(dataset.input_shape().begin(), dataset.input_shape().end()) ==
        std::vector<std::int64_t>{1, 1, 2});
}

TEST_CASE("Fashion-MNIST comes from where the environment says", "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  ddp::test::write_fashion_mnist(directory.path(), {.train = 3, .test = 2});
  const ddp::test::ScopedVariable variable("DDP_FASHION_MNIST", directory.path().string());
  CHECK(ddp::load_fashion_mnist(DataSplit::kTrain).size() == 3);
  CHECK(ddp::load_fashion_mnist(DataSplit::kTest).size() == 2);
}

TEST_CASE("errors about Fashion-MNIST name the file, the problem and the remedy",
          "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  const auto error = [&] {
    return error_of([&] { (void)ddp::load_fashion_mnist(DataSplit::kTrain, directory.path()); });
  };
  CHECK_THROWS_AS(ddp::load_fashion_mnist(DataSplit::kTest, directory.path()), ddp::FileError);
  CHECK_THAT(error(), Contains((directory / "train-images-idx3-ubyte").string()) &&
                          Contains("No such file") && Contains("package dataset-fashion-mnist") &&
                          !Contains("--data-dir"));

  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 1, 2}, "abcd"));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({3}, std::string(3, '\0')));
  CHECK_THAT(error(), Contains("train-labels-idx1-ubyte: holds 3 labels for 2 images"));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({2}, "\x01\x0b"));
  CHECK_THAT(error(), Contains("label 11 of image 1 is not in [0, 9]"));
  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 0, 2}, ""));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({2}, "\x01\x02"));
  CHECK_THAT(error(), Contains("[fashion_mnist] cannot load the training set"));
}

TEST_CASE("the distribution's Fashion-MNIST has the expected contents", "[data][fashion_mnist]") {
  if (!fs::exists("/usr/share/datasets/fashion-mnist") || !ddp::gzip_is_compiled_in()) {
    WARN("SKIPPED: the package dataset-fashion-mnist is not installed, or zlib is missing");
    return;
  }
  const ImageDataset train = ddp::load_fashion_mnist(DataSplit::kTrain);
  CHECK(train.size() == 60000);
  CHECK(ddp::load_fashion_mnist(DataSplit::kTest).size() == 10000);

  std::vector<std::int64_t> all(60000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::vector<float> inputs(all.size() * 28 * 28);
  std::vector<std::int64_t> labels(all.size());
  train.gather(all, ddp::buffer_of(inputs), ddp::buffer_of(labels));
  CHECK(std::vector<std::int64_t>(labels.begin(), labels.begin() + 5) ==
        std::vector<std::int64_t>{9, 0, 0, 3, 0});
  double sum = 0;
  double squares = 0;
  for (const float value : inputs) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(inputs.size());
  CHECK(sum / count == Approx(0).margin(1e-3));
  CHECK(squares / count == Approx(1).margin(1e-3));
}
