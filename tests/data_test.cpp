// SPDX-License-Identifier: MIT
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/fashion_mnist.h"
#include "ddp/data/idx.h"
#include "support/files.h"
#include "support/idx_bytes.h"
#include "support/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::DataSplit;
using ddp::DType;
using ddp::ImageDataset;
using ddp::read_idx;
using ddp::test::bytes_of;
using ddp::test::error_of;
using ddp::test::idx;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

void write_gzipped(const fs::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

std::string idx_error(const fs::path& path, std::size_t dimensions = 1) {
  try {
    (void)read_idx(path, dimensions);
  } catch (const ddp::FileError& error) {
    return error.what();
  }
  return "no error";
}

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

TEST_CASE("IDX files are read plain and gzipped", "[data][idx]") {
  const TemporaryDirectory directory;
  const std::string bytes = idx({2, 3}, "abcdef");
  write_bytes(directory / "plain", bytes);
  write_gzipped(directory / "gzipped.gz", bytes);
  for (const char* name : {"plain", "gzipped.gz"}) {
    CAPTURE(name);
    const ddp::IdxArray array = read_idx(directory / name, 2);
    CHECK(array.shape == std::vector<std::int64_t>{2, 3});
    CHECK(array.values == std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  }
  write_bytes(directory / "empty", idx({0}, ""));
  CHECK(read_idx(directory / "empty", 1).values.empty());
}

TEST_CASE("a damaged IDX file is an error that says what is wrong", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  CHECK_THAT(idx_error(path), Contains(path.string() + ": cannot be opened: No such file"));
  CHECK_THAT(idx_error(directory.path()), Contains("Is a directory"));

  write_bytes(path, "");
  CHECK_THAT(idx_error(path), Contains("ends inside the header"));
  write_bytes(path, idx({3}, "abc").substr(0, 6));
  CHECK_THAT(idx_error(path), Contains("ends inside the header"));
  write_bytes(path, "<html>404 not found</html>");
  CHECK_THAT(idx_error(path), Contains("starts with 0x3c68746d instead of 0x00000801"));
  write_bytes(path, idx({3}, "abc"));
  CHECK_THAT(idx_error(path, 3), Contains("0x00000801 instead of 0x00000803"));
  write_bytes(path, idx({4}, "abc"));
  CHECK_THAT(idx_error(path), Contains("is truncated: 3 of 4 values are there"));
  write_bytes(path, idx({2}, "abc"));
  CHECK_THAT(idx_error(path), Contains("goes on after its 2 values"));
}

TEST_CASE("a header that lies does not take memory", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  const std::string bytes = idx({0xffffffffU, 0xffffffffU, 0xffffffffU}, "abc");
  write_bytes(path, bytes);
  CHECK_THAT(
      idx_error(path, 3),
      Contains("promises 4294967295 x 4294967295 x 4294967295 bytes, more than it can hold"));
  write_gzipped(path, bytes);
  CHECK_THAT(idx_error(path, 3), Contains("more than it can hold"));
  write_bytes(path, idx({0x80000000U, 0x80000000U, 4}, ""));  // 2^64 values
  CHECK_THAT(idx_error(path, 3), Contains("more than it can hold"));
  write_gzipped(path, idx({0xffffffffU}, "abc"));
  CHECK_THAT(idx_error(path), Contains("more than it can hold"));
}

TEST_CASE("damage inside a gzip stream is found", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file.gz";
  write_gzipped(path, idx({1000}, std::string(1000, 'x')));
  const std::string good = bytes_of(path);

  std::string bad = good;
  bad[bad.size() - 8] = static_cast<char>(bad[bad.size() - 8] ^ 1);  // the checksum
  write_bytes(path, bad);
  CHECK_THAT(idx_error(path), Contains("is damaged: ") && Contains("incorrect data check"));
  for (const std::size_t size : {good.size() - 1, good.size() - 8, good.size() / 2}) {
    write_bytes(path, good.substr(0, size));
    CHECK_THAT(idx_error(path), Contains("is truncated"));
  }
}

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

TEST_CASE("Fashion-MNIST comes from any directory with its four files", "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 1, 2}, std::string(4, '\0')));
  write_gzipped(directory / "train-labels-idx1-ubyte.gz", idx({2}, "\x03\x09"));
  const ImageDataset dataset = ddp::load_fashion_mnist(DataSplit::kTrain, directory.path());
  CHECK(dataset.size() == 2);
  CHECK(std::vector<std::int64_t>(dataset.input_shape().begin(), dataset.input_shape().end()) ==
        std::vector<std::int64_t>{1, 1, 2});
}

TEST_CASE("Fashion-MNIST names the file, what is wrong and the way out", "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  const auto error = [&] {
    return error_of([&] { (void)ddp::load_fashion_mnist(DataSplit::kTrain, directory.path()); });
  };
  CHECK_THROWS_AS(ddp::load_fashion_mnist(DataSplit::kTest, directory.path()), ddp::FileError);
  CHECK_THAT(error(), Contains((directory / "train-images-idx3-ubyte").string()) &&
                          Contains("No such file") &&
                          Contains("apt-get install dataset-fashion-mnist") &&
                          Contains("--data-dir DIR"));

  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 1, 2}, "abcd"));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({3}, std::string(3, '\0')));
  CHECK_THAT(error(), Contains("train-labels-idx1-ubyte: holds 3 labels for 2 images"));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({2}, "\x01\x0b"));
  CHECK_THAT(error(), Contains("label 11 of image 1 is not in [0, 9]"));
  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 0, 2}, ""));
  write_bytes(directory / "train-labels-idx1-ubyte", idx({2}, "\x01\x02"));
  CHECK_THAT(error(), Contains("[fashion_mnist] cannot load the training set"));
}

TEST_CASE("the distribution's Fashion-MNIST is what it should be", "[data][fashion_mnist]") {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) {
    WARN("SKIPPED: the package dataset-fashion-mnist is not installed");
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
