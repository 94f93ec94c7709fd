// SPDX-License-Identifier: MIT
//
// Runs with either implementation of crc32.h.
#include "ddp/io/crc32.h"

#include <catch2/catch.hpp>
#include <string>

TEST_CASE("crc32 has the check value of its catalogue, in parts too", "[io][crc32]") {
  const std::string digits = "123456789";
  CHECK(ddp::crc32(0, digits.data(), digits.size()) == 0xcbf43926);
  for (std::size_t cut = 0; cut <= digits.size(); ++cut) {
    const std::uint32_t before = ddp::crc32(0, digits.data(), cut);
    CHECK(ddp::crc32(before, digits.data() + cut, digits.size() - cut) == 0xcbf43926);
  }
  CHECK(ddp::crc32(0, nullptr, 0) == 0);
}
