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

// Writes the tensors in the order given, atomically (see AtomicFile): if that fails, throws a
// FileError with path and reason, and an older file is still there. std::invalid_argument if a
// tensor is not in CPU memory, if a count is not the product of the shape, or if a name occurs
// twice, is "__metadata__", or is not UTF-8.
void save_safetensors(const std::filesystem::path& path, std::span<const NamedBuffer> tensors,
                      const SafetensorsMetadata& metadata = {});

struct Safetensors {
  std::vector<NamedBuffer> tensors;  // in file order; views into `memory`
  SafetensorsMetadata metadata;
  Allocation memory;
};

// Reads a whole file into CPU memory, each tensor aligned to kHostAlignment. The header is checked
// completely before memory for the data is allocated. Throws FileError that names the file, with
// the reason nested: a FileError for a bad file, a SystemError if the system failed.
[[nodiscard]] Safetensors load_safetensors(const std::filesystem::path& path);

// Reads only the header, with the same errors.
[[nodiscard]] SafetensorsMetadata load_safetensors_metadata(const std::filesystem::path& path);

}  // namespace ddp
