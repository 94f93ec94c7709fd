// SPDX-License-Identifier: MIT
//
// IDX, the format of MNIST and its relatives (http://yann.lecun.com/exdb/mnist), plain or gzipped:
//
//   file    := magic size{dimensions} value*      as many values as the product of the sizes
//   magic   := 0x00 0x00 type dimensions          one byte each
//   type    := 0x08                               unsigned byte; the only type read here
//   size    := uint32, big-endian
//   value   := one byte; the last dimension varies fastest
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace ddp {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

// Reads an array with that many dimensions. Throws FileError, naming the file and the problem, if
// the file cannot be read, is not such an array, is too short or too long, or has a wrong gzip
// checksum; EnvironmentError if it is gzipped and this build has no zlib. Allocates only as much as
// a file of that size can hold, whatever its header says.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path, std::size_t dimensions);

}  // namespace ddp
