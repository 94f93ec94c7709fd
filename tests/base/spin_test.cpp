// SPDX-License-Identifier: MIT
#include "ddp/base/threads/spin.h"

#include <catch2/catch.hpp>

using namespace ddp;

TEST_CASE("a spin finds what arrives while it looks", "[base]") {
  Spin spin(std::chrono::seconds(10));
  int looks = 0;
  CHECK(spin.until([&] { return ++looks == 3; }));
  CHECK(looks == 3);
}

TEST_CASE("a limit of zero never polls", "[base]") {
  Spin spin(std::chrono::microseconds(0));
  bool looked = false;
  CHECK_FALSE(spin.until([&] { return looked = true; }));
  CHECK_FALSE(looked);
}

TEST_CASE("a spin that finds nothing for long stops polling for a while", "[base]") {
  Spin spin(std::chrono::milliseconds(2));
  int rounds = 0;
  bool looked = true;
  while (looked && rounds < 100) {  // it has credit for a few rounds
    looked = false;
    CHECK_FALSE(spin.until([&] {
      looked = true;
      return false;
    }));
    ++rounds;
  }
  CHECK_FALSE(looked);
  CHECK(rounds > 1);
}
