// SPDX-License-Identifier: MIT
#include "ddp/data/cifar10.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/regular_file.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::int64_t, 3> kShape = {3, 32, 32};
constexpr std::size_t kPixels = 3 * 32 * 32;
constexpr std::size_t kRecord = 1 + kPixels;
constexpr std::size_t kRecords = 10000;  // records in each file of the archive

void check_size(std::uint64_t size) {
  if (size != 0 && size % kRecord == 0) return;
  throw std::runtime_error(
      fmt::format("has {} bytes, where {} were expected, or another multiple of the {} of a record",
                  size, kRecords * kRecord, kRecord));
}

std::vector<std::uint8_t> contents_of(const fs::path& path) try {
  RegularFile file(path);
  check_size(file.size());
  std::vector<std::uint8_t> bytes(file.size());
  const std::size_t count = file.read(bytes.data(), bytes.size());
  if (count == bytes.size()) return bytes;
  throw std::runtime_error(fmt::format("{} of {} bytes were read", count, bytes.size()));
} catch (const std::runtime_error& error) {
  throw FileError(path.string() + ": " + error.what());
}

// Returns the number of images in the file.
std::size_t append_file(const fs::path& path, LabelledImages& images) {
  const std::vector<std::uint8_t> bytes = contents_of(path);
  images.pixels.reserve(images.pixels.size() + bytes.size());
  for (auto record = bytes.begin(); record != bytes.end(); record += kRecord) {
    if (*record >= kCifar10Classes) {
      throw FileError(fmt::format(
          "{}: label {} of image {} is not in [0, {}]", path.string(), *record,
          (record - bytes.begin()) / static_cast<std::ptrdiff_t>(kRecord), kCifar10Classes - 1));
    }
    images.labels.push_back(*record);
    images.pixels.insert(images.pixels.end(), record + 1, record + kRecord);
  }
  return bytes.size() / kRecord;
}

std::vector<std::string> files_of(DataSplit split) {
  if (split == DataSplit::kTest) return {"test_batch.bin"};
  std::vector<std::string> files;
  for (int batch = 1; batch <= 5; ++batch) files.push_back(fmt::format("data_batch_{}.bin", batch));
  return files;
}

ImageDataset load(DataSplit split, const fs::path& data_dir, const ImageTransforms& transforms) {
  const fs::path unpacked = data_dir / "cifar-10-batches-bin";
  std::error_code ignored;
  const fs::path& directory = fs::is_directory(unpacked, ignored) ? unpacked : data_dir;
  LabelledImages images{
      .shape = kShape,
      .pixels = {},
      .labels = {},
      .normalization = {kCifar10Normalization.begin(), kCifar10Normalization.end()}};
  std::string deviations;
  for (const std::string& file : files_of(split)) {
    const std::size_t count = append_file(directory / file, images);
    if (count != kRecords) deviations += fmt::format(", {} has {}", file, count);
  }
  if (!deviations.empty()) {
    logging::warning(
        fmt::format("[cifar10] {}: the archive's files have {} images each, but{} (cut "
                    "short, or your own?)",
                    directory.string(), kRecords, deviations.substr(1)));
  }
  return ImageDataset(std::move(images), transforms);
}

}  // namespace

ImageDataset load_cifar10(DataSplit split, const fs::path& data_dir,
                          const ImageTransforms& transforms) {
  try {
    return load(split, data_dir, transforms);
  } catch (const FileError&) {
    std::throw_with_nested(FileError(
        fmt::format("[cifar10] cannot load the {} set (its files are those of "
                    "cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html)",
                    split == DataSplit::kTrain ? "training" : "test")));
  }
}

}  // namespace ddp
