// SPDX-License-Identifier: MIT
//
// Stands in for crc32.cpp in a build without zlib: the same values, a byte at a time.
#include "ddp/io/crc32.h"
#include "ddp/io/crc_table.h"

namespace ddp {
namespace {

constexpr auto kTable = make_crc_table(0xedb88320);  // 0x04c11db7 with its bits reversed

}  // namespace

std::uint32_t crc32(std::uint32_t before, const void* data, std::size_t size_bytes) {
  return continue_crc(kTable, before, {static_cast<const unsigned char*>(data), size_bytes});
}

}  // namespace ddp
