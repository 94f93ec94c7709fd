// SPDX-License-Identifier: MIT
#include "ddp/base/busy_with.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include "ddp/base/system/home_process.h"
#include "ddp/base/time.h"

namespace ddp {
namespace {

struct Occupation {
  std::uint64_t number = 0;
  std::string what;
  Clock::time_point since;
};

// Those of the parent, too, which may end in a fork.
std::atomic<std::uint64_t> begun = 0;

// Those of a process that have begun and not ended; beyond so many, the last ones are not told.
class Occupations {
 public:
  std::uint64_t begin(std::string what) {
    const std::lock_guard lock(mutex_);
    if (open_ == all_.size()) return 0;
    all_[open_] = {++begun, std::move(what), Clock::now()};
    return all_[open_++].number;
  }

  void end(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto last = all_.begin() + static_cast<std::ptrdiff_t>(open_);
    const auto rest = std::remove_if(
        all_.begin(), last, [number](const Occupation& each) { return each.number == number; });
    open_ = static_cast<std::size_t>(rest - all_.begin());
  }

  [[nodiscard]] std::string last() {
    const std::lock_guard lock(mutex_);
    if (open_ == 0) return "";
    const Occupation& last = all_[open_ - 1];
    const std::chrono::duration<double> time = Clock::now() - last.since;
    return fmt::format("{} for {:.1f} s", last.what, time.count());
  }

  [[nodiscard]] bool is_here() const { return process_.is_here(); }

 private:
  HomeProcess process_;
  std::mutex mutex_;
  std::array<Occupation, 16> all_;  // the first `open_`, in the order in which they began
  std::size_t open_ = 0;
};

// Never destroyed: threads that read them may outlive main(). The first ones take no heap, so that
// a loader's wait does not. A fork, in which a thread of the parent may hold the mutex for ever,
// begins with new ones.
Occupations& occupations() {
  alignas(Occupations) static std::byte memory[sizeof(Occupations)];
  static std::atomic<Occupations*> current = new (memory) Occupations;
  Occupations* known = current.load();
  if (known->is_here()) return *known;
  auto* const own = new Occupations;
  if (current.compare_exchange_strong(known, own)) return *own;
  delete own;  // another thread was first
  return *known;
}

}  // namespace

BusyWith::BusyWith(std::string what) {
  std::ranges::replace(what, '\n', ' ');  // it becomes a part of a line
  number_ = occupations().begin(std::move(what));
}

BusyWith::~BusyWith() { occupations().end(number_); }

std::string busy_with() { return occupations().last(); }

}  // namespace ddp
