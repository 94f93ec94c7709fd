// SPDX-License-Identifier: MIT
#include "ddp/io/crc32.h"

#include <zlib.h>

namespace ddp {

std::uint32_t crc32(std::uint32_t before, const void* data, std::size_t size_bytes) {
  if (size_bytes == 0) return before;  // without data zlib would return its initial value
  return static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(data), size_bytes));
}

}  // namespace ddp
