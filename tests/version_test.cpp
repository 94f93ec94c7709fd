// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <string>

#include "ddp/version.h"

TEST_CASE("the version in the header equals CMake's", "[base]") {
  CHECK(std::string(ddp::kVersion) == DDP_PROJECT_VERSION);
}
