// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "ddp/base/log.h"
#include "ddp/version.h"

TEST_CASE("the version in the header equals CMake's", "[base]") {
  CHECK(std::string(ddp::kVersion) == DDP_PROJECT_VERSION);
}

TEST_CASE("with the namespace ddp, the functions of <cmath> need no qualification", "[base]") {
  using namespace ddp;
  CHECK(log(1.0) == 0);
}
