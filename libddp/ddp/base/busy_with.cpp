// SPDX-License-Identifier: MIT
#include "ddp/base/busy_with.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "ddp/base/time.h"

namespace ddp {
namespace {

struct Occupation {
  std::uint64_t number;
  std::string what;
  Clock::time_point since;
};

struct Occupations {
  std::mutex mutex;
  std::uint64_t begun = 0;
  std::vector<Occupation> open;  // the last that has begun is the last one
};

// Never destroyed: threads that read them may outlive main().
Occupations& occupations() {
  static auto* const all = new Occupations;
  return *all;
}

}  // namespace

BusyWith::BusyWith(std::string what) {
  std::ranges::replace(what, '\n', ' ');  // it becomes a part of a line
  Occupations& all = occupations();
  const std::lock_guard lock(all.mutex);
  number_ = ++all.begun;
  all.open.push_back({number_, std::move(what), Clock::now()});
}

BusyWith::~BusyWith() {
  Occupations& all = occupations();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.open, [this](const Occupation& each) { return each.number == number_; });
}

std::string busy_with() {
  Occupations& all = occupations();
  const std::lock_guard lock(all.mutex);
  if (all.open.empty()) return "";
  const Occupation& last = all.open.back();
  const std::chrono::duration<double> time = Clock::now() - last.since;
  return fmt::format("{} for {:.1f} s", last.what, time.count());
}

}  // namespace ddp
