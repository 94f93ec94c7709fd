// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::test {

inline std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16 & 0xff),
          static_cast<char>(value >> 8 & 0xff), static_cast<char>(value & 0xff)};
}

// An IDX file of unsigned bytes: see ddp/data/idx.h.
inline std::string idx(const std::vector<std::uint32_t>& shape, const std::string& values) {
  std::string bytes = big_endian(0x0800U | static_cast<std::uint32_t>(shape.size()));
  for (const std::uint32_t size : shape) bytes += big_endian(size);
  return bytes + values;
}

}  // namespace ddp::test
