// SPDX-License-Identifier: MIT
#pragma once

#include <sched.h>

namespace ddp::bench {

// Pins the calling thread, and every thread that it starts while this object exists, to one CPU.
class Pinned {
 public:
  explicit Pinned(int cpu);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t previous_;
};

}  // namespace ddp::bench
