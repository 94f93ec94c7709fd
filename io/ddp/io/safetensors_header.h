// SPDX-License-Identifier: MIT
//
// Formats and parses the JSON of the header, without files. The format is in safetensors.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/io/safetensors.h"

namespace ddp {

inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// The place of one tensor in the data.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by ascending offsets
  SafetensorsMetadata metadata;
};

// The header with its padding, without the preceding length.
[[nodiscard]] std::string format_safetensors_header(std::span<const NamedBuffer> tensors,
                                                    const SafetensorsMetadata& metadata);

// Throws FileError unless the header is valid and its entries cover data_bytes without a gap.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text,
                                                         std::uint64_t data_bytes);

}  // namespace ddp
