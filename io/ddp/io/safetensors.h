// SPDX-License-Identifier: MIT
//
// Files that Python's safetensors package reads and writes
// (https://github.com/huggingface/safetensors#format):
//
//   file     := length header data
//   length   := uint64, little-endian: bytes of header; at most 100 000 000
//   header   := JSON object, padded with spaces so that data starts at a multiple of 8:
//               {"__metadata__": {"key": "value", ...},        optional
//                "NAME": {"dtype": DTYPE, "shape": [n, ...], "data_offsets": [begin, end]}, ...}
//   DTYPE    := "F64" | "F32" | "F16" | "BF16" | "I64" | "I32" | "U8"    (those that we have)
//   data     := the tensors, little-endian, row-major; offsets count from here and leave no hole
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/named_buffer.h"

namespace ddp {

using SafetensorsMetadata = std::map<std::string, std::string>;

// Writes the tensors in the order given, and atomically (see AtomicFile): after an error, a
// FileError with path and reason, an older file is still there. A tensor that is not in CPU memory,
// a count that is not the product of the shape, or a name that occurs twice, is "__metadata__" or
// not UTF-8, is std::invalid_argument.
void save_safetensors(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                      const SafetensorsMetadata& metadata = {});

struct Safetensors {
  std::vector<NamedBuffer> tensors;  // in the order of the data; views into `memory`
  SafetensorsMetadata metadata;
  Allocation memory;
};

// Reads a whole file into CPU memory, each tensor aligned to kHostAlignment. Everything that the
// header says is checked before memory is taken for the data. Throws FileError that names the file,
// nested around what is wrong with it: a FileError, or a SystemError where the system failed.
[[nodiscard]] Safetensors load_safetensors(const std::filesystem::path& path);

}  // namespace ddp
