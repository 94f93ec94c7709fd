// SPDX-License-Identifier: MIT
#include "soak/promises.h"

#include <catch2/catch.hpp>
#include <string>

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using ddp::soak::Promises;

TEST_CASE("one broken promise among kept ones is remembered, and its line says so", "[soak]") {
  std::string line;
  Promises promises([&](const std::string& text) { line = text; });
  promises.at_most("the end", 20, {20, 3, 4});
  CHECK_THAT(line, Contains("   3 rounds: median     4.0 ms, max    20.0 ms (promised 20 ms)") &&
                       !Contains("BROKEN"));
  promises.at_least("the interval", 10, {10, 11});
  CHECK_THAT(line, Contains("min    10.0 ms (promised at least 10 ms)") && !Contains("BROKEN"));
  promises.finding("nothing left", true);
  CHECK(line == "nothing left");
  CHECK(promises.all_kept());

  SECTION("a time that is too long") { promises.at_most("the end", 20, {3, 20.5, 4}); }
  SECTION("a time that is too short") { promises.at_least("the interval", 10, {11, 9.5}); }
  SECTION("another finding") { promises.finding("a pid left", false); }
  CHECK_THAT(line, EndsWith("  BROKEN"));
  CHECK_FALSE(promises.all_kept());
  promises.finding("nothing left", true);
  CHECK_FALSE(promises.all_kept());
}
