// SPDX-License-Identifier: MIT
#include "ddp/data/cifar10.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::DataSplit;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

// A record whose red, green and blue planes each have one value.
std::string record(char label, char red, char green, char blue) {
  return label + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

// Writes a training set whose batch b has two images, with the labels b and 9 - b.
void write_training_set(const fs::path& directory) {
  for (int batch = 1; batch <= 5; ++batch) {
    const auto label = static_cast<char>(batch);
    write_bytes(directory / ("data_batch_" + std::to_string(batch) + ".bin"),
                record(label, 10, 20, 30) + record(static_cast<char>(9 - label), label, 0, '\xff'));
  }
}

struct Content {
  std::vector<double> inputs;
  std::vector<std::int64_t> labels;
};

Content content_of(const ddp::Dataset& dataset) {
  const auto size = static_cast<std::size_t>(dataset.size());
  Content content{std::vector<double>(size * 3072), std::vector<std::int64_t>(size)};
  std::vector<std::int64_t> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = static_cast<std::int64_t>(i);
  dataset.gather(all, ddp::buffer_of(content.inputs), ddp::buffer_of(content.labels));
  return content;
}

}  // namespace

TEST_CASE("CIFAR-10's five training files follow each other", "[data][cifar10]") {
  const TemporaryDirectory directory;
  write_training_set(directory.path());
  const ddp::ImageDataset dataset = ddp::load_cifar10(DataSplit::kTrain, directory.path());
  REQUIRE(dataset.size() == 10);
  CHECK(std::vector<std::int64_t>(dataset.input_shape().begin(), dataset.input_shape().end()) ==
        std::vector<std::int64_t>{3, 32, 32});
  const Content content = content_of(dataset);
  CHECK(content.labels == std::vector<std::int64_t>{1, 8, 2, 7, 3, 6, 4, 5, 5, 4});
  // Image 3 is batch 2's second: red 2, green 0, blue 255.
  const double* image = content.inputs.data() + 3 * 3072;
  CHECK(image[0] == (2 / 255.0 - 0.4914) / 0.2470);
  CHECK(image[1023] == image[0]);
  CHECK(image[1024] == (0 - 0.4822) / 0.2435);
  CHECK(image[3071] == (1 - 0.4465) / 0.2616);
}

TEST_CASE("CIFAR-10's test file is found where the archive unpacks, and cropped",
          "[data][cifar10]") {
  const TemporaryDirectory directory;
  fs::create_directory(directory / "cifar-10-batches-bin");
  write_bytes(directory / "cifar-10-batches-bin/test_batch.bin", record(7, 1, 2, 3));
  const ddp::ImageDataset dataset =
      ddp::load_cifar10(DataSplit::kTest, directory.path(),
                        {.crop = ddp::Crop{.size = {8, 6}}, .flip_probability = 0.5});
  CHECK(dataset.size() == 1);
  CHECK(dataset.input_shape()[1] == 8);
  CHECK(dataset.input_shape()[2] == 6);
}

TEST_CASE("files that are not the CIFAR-10 archive's are read with a warning", "[data][cifar10]") {
  const TemporaryDirectory directory;
  const auto resize = [&](int batch, std::uintmax_t records) {  // new records are black
    const fs::path file = directory / ("data_batch_" + std::to_string(batch) + ".bin");
    write_bytes(file, "");
    fs::resize_file(file, records * 3073);
  };
  for (int batch = 1; batch <= 5; ++batch) resize(batch, 10000);
  const auto warnings = [&](std::int64_t expected_size) {
    const ddp::test::StderrCapture captured;
    const auto dataset = ddp::load_cifar10(DataSplit::kTrain, directory.path());
    CHECK(dataset.size() == expected_size);
    return captured.text();
  };
  CHECK(warnings(50000).empty());
  resize(2, 1);
  resize(4, 9999);
  const std::string text = warnings(40000);
  CHECK_THAT(text, Contains("[cifar10] " + directory.path().string() +
                            ": the archive's files have 10000 images each, but data_batch_2.bin "
                            "has 1, data_batch_4.bin has 9999 (cut short, or your own?)\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("errors about CIFAR-10 name the file, the problem and the remedy", "[data][cifar10]") {
  const TemporaryDirectory directory;
  const auto error = [&] {
    CHECK_THROWS_AS(ddp::load_cifar10(DataSplit::kTrain, directory.path()), ddp::FileError);
    return ddp::test::error_of(
        [&] { (void)ddp::load_cifar10(DataSplit::kTrain, directory.path()); });
  };
  CHECK_THAT(error(), Contains("[cifar10] cannot load the training set") &&
                          Contains("cifar-10-binary.tar.gz") && !Contains("--data-dir") &&
                          Contains((directory / "data_batch_1.bin").string() +
                                   ": cannot be opened: No such file"));
  write_training_set(directory.path());
  const fs::path third = directory / "data_batch_3.bin";
  for (const std::size_t size : {std::size_t{3072}, std::size_t{0}}) {
    write_bytes(third, record(1, 0, 0, 0).substr(0, size));
    CHECK_THAT(error(), Contains(third.string() + ": has " + std::to_string(size) +
                                 " bytes, where 30730000 were expected, or another multiple of "
                                 "the 3073 of a record"));
  }
  write_bytes(third, record(1, 0, 0, 0) + record(10, 0, 0, 0));
  CHECK_THAT(error(), Contains(third.string() + ": label 10 of image 1 is not in [0, 9]"));
  fs::remove(third);
  fs::create_directory(third);
  CHECK_THAT(error(), Contains(third.string() + ": is not a regular file: Is a directory"));
  fs::remove(third);
  REQUIRE(mkfifo(third.c_str(), 0600) == 0);  // whose writer never comes
  CHECK_THAT(error(), Contains(third.string() + ": is not a regular file"));
}
