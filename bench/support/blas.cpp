// SPDX-License-Identifier: MIT
#include "support/blas.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "ddp/base/error.h"

namespace ddp::bench {

void use_one_blas_thread(char** argv) {
  bool is_set = true;
  for (const char* variable : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* threads = std::getenv(variable);
    is_set = is_set && threads != nullptr && std::string_view(threads) == "1";
    ::setenv(variable, "1", 1);
  }
  if (is_set) return;
  ::execv("/proc/self/exe", argv);
  throw SystemError("cannot start this program again with one BLAS thread", errno);
}

}  // namespace ddp::bench
