// SPDX-License-Identifier: MIT
#include "ddp/io/crc32c.h"

#include "ddp/io/crc_table.h"

namespace ddp {
namespace {

constexpr auto kTable = make_crc_table(0x82f63b78);  // 0x1edc6f41 with its bits reversed

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  return continue_crc(kTable, 0,
                      {reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
}

}  // namespace ddp
