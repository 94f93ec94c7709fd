// SPDX-License-Identifier: MIT
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <iostream>

#include "ddp/cuda/cuda.h"

namespace {

constexpr int kSkipped = 77;  // CTest's SKIP_RETURN_CODE

}  // namespace

int main(int argc, char** argv) {
  if (ddp::cu::device_count() == 0) {
    std::cout << "SKIPPED: no GPU\n";
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
