// SPDX-License-Identifier: MIT
#include "support/pinning.h"

#include <cerrno>
#include <string>

#include "ddp/base/error.h"

namespace ddp::bench {

Pinned::Pinned(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_getaffinity(0, sizeof(previous_), &previous_) != 0 ||
      ::sched_setaffinity(0, sizeof(one), &one) != 0) {
    throw SystemError("cannot pin a thread to CPU " + std::to_string(cpu), errno);
  }
}

Pinned::~Pinned() { ::sched_setaffinity(0, sizeof(previous_), &previous_); }

}  // namespace ddp::bench
