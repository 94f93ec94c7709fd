// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>

#include "ddp/base/time.h"

namespace ddp {

// Tells one press of Ctrl-C from two. The terminal signals all processes in its foreground; if a
// wrapper is among them that passes its signal on (timeout --foreground), the wrapped process gets
// a second one for the same press. Two signals of processes, as `kill` sends them, are always two,
// and so are two presses, however fast; but a press within a second after a `kill` counts as its
// copy.
class KeyPress {
 public:
  // Whether a signal with this si_code is such a copy of the last one that was not.
  // Async-signal-safe; the handlers of both may run at the same time, on two threads.
  [[nodiscard]] bool is_copy(int si_code) {
    const Press press = press_now(si_code == SI_KERNEL);
    Press last = last_.load();
    do {
      if (last != 0 && is_by_terminal(last) != is_by_terminal(press) && press < last + kDetour) {
        return true;
      }
    } while (!last_.compare_exchange_weak(last, press));
    return false;
  }

 private:
  using Press = std::uint64_t;  // nanoseconds of the clock, the last bit replaced by its origin

  static constexpr Press kDetour = 1'000'000'000;  // even of a copy on a machine that is busy

  static Press press_now(bool by_terminal) {
    const std::chrono::nanoseconds now = Clock::now().time_since_epoch();
    return (static_cast<Press>(now.count()) & ~Press{1}) | (by_terminal ? 1 : 0);
  }
  static bool is_by_terminal(Press press) { return (press & 1) != 0; }

  std::atomic<Press> last_ = 0;  // that was no copy; 0: none
  static_assert(std::atomic<Press>::is_always_lock_free);
};

}  // namespace ddp
