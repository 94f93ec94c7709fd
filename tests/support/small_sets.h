// SPDX-License-Identifier: MIT
//
// Noise in the formats of real datasets, for short trainings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ddp/base/random.h"
#include "support/files.h"
#include "support/idx_bytes.h"

namespace ddp::test {

struct SetSizes {
  std::uint32_t train = 24;
  std::uint32_t test = 10;
};

// Random bytes below `end` from the stream `name`.
inline std::string noise(const std::string& name, std::size_t count, std::uint64_t end = 256) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<char>(random_bits(0, stream_of(name), i) % end);
  }
  return bytes;
}

// Writes files for load_fashion_mnist.
inline void write_fashion_mnist(const std::filesystem::path& directory,
                                const SetSizes& sizes = {}) {
  const auto write = [&](const std::string& split, std::uint32_t count) {
    write_bytes(directory / (split + "-images-idx3-ubyte"),
                idx({count, 28, 28}, noise(split, count * std::size_t{28 * 28})));
    write_bytes(directory / (split + "-labels-idx1-ubyte"),
                idx({count}, noise(split + " labels", count, 10)));
  };
  write("train", sizes.train);
  write("t10k", sizes.test);
}

// Writes files for load_cifar10. Of the five training files, the first has all images except one in
// each of the others.
inline void write_cifar10(const std::filesystem::path& directory, const SetSizes& sizes = {}) {
  const auto write = [&](const std::string& name, std::uint32_t count) {
    const std::string labels = noise(name + " labels", count, 10);
    std::string bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
      bytes += labels[i] + noise(name + std::to_string(i), 3072);
    }
    write_bytes(directory / (name + ".bin"), bytes);
  };
  write("data_batch_1", sizes.train - 4);
  for (const char* batch : {"2", "3", "4", "5"}) write("data_batch_" + std::string(batch), 1);
  write("test_batch", sizes.test);
}

}  // namespace ddp::test
