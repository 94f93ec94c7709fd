// SPDX-License-Identifier: MIT
#include "support/program.h"

#include <cstdio>

#include "ddp/base/error.h"

namespace ddp::bench {
namespace {

constexpr int kSkipped = 77;

}  // namespace

int run_program(const char* name, const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const Skipped& skipped) {
    std::fprintf(stderr, "%s: SKIPPED: %s\n", name, skipped.what());
    return kSkipped;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, describe(error).c_str());
    return 1;
  }
}

}  // namespace ddp::bench
