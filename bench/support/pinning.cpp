// SPDX-License-Identifier: MIT
#include "support/pinning.h"

#include <cerrno>
#include <string>

#include "ddp/base/error.h"

namespace ddp::bench {

std::vector<int> usable_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    throw SystemError("cannot read the CPU affinity", errno);
  }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

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
