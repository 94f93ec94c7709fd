// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

namespace ddp::emulation {

// A function with a stack of its own that stops and goes on, always on one thread. Unlike
// swapcontext(), stop() and resume() make no system call, and the address sanitizer does not clear
// a stack's shadow at each of them.
class Fiber {
 public:
  // `entry` never returns.
  explicit Fiber(void (*entry)()) : entry_(entry) {}

  // Begins or goes on; returns when the fiber stops.
  void resume();
  // For the fiber itself.
  void stop();
  // As if it stopped and whoever resumed it resumed `next`, which has stopped. Half the work.
  void make_way_for(Fiber& next);

 private:
  struct Place {
    void* buffer[5];  // as GCC defines it
  };

  [[noreturn]] static void go_to(Place& place);
  void begin();

  void (*entry_)();
  std::unique_ptr<std::byte[]> stack_;  // null until it begins
  Place inside_{}, outside_{};
};

}  // namespace ddp::emulation
