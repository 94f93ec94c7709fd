// SPDX-License-Identifier: MIT
#include "support/blas.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "ddp/base/error.h"

namespace ddp::bench {

void use_one_blas_thread(char** argv) {
  constexpr const char* kVariable = "OPENBLAS_NUM_THREADS";
  const char* threads = std::getenv(kVariable);
  if (threads != nullptr && std::string_view(threads) == "1") return;
  ::setenv(kVariable, "1", 1);
  ::execv("/proc/self/exe", argv);
  throw SystemError("cannot start this program again with one BLAS thread", errno);
}

}  // namespace ddp::bench
