// SPDX-License-Identifier: MIT
#include "ddp/base/threads/run_until.h"

#include <algorithm>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "ddp/base/threads/background_thread.h"

namespace ddp {

namespace {

using Look = std::function<void()>;

// False if the deadline passed first.
bool await(const std::future<void>& result, Deadline deadline, const Look& look, Timeout period) {
  for (;;) {
    const Deadline next = Deadline::after(std::min(period, deadline.remaining()));
    if (result.wait_until(next.time_point()) == std::future_status::ready) return true;
    if (deadline.passed()) return false;
    look();
  }
}

}  // namespace

bool run_until(Deadline deadline, std::function<void()> action, const Look& look, Timeout period) {
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(action));
  std::future<void> result = task->get_future();
  std::thread thread = start_background_thread("ddp-helper", [task] { (*task)(); });
  try {
    if (!await(result, deadline, look, period)) {
      thread.detach();
      return false;
    }
  } catch (...) {
    thread.detach();
    throw;
  }
  thread.join();
  result.get();
  return true;
}

bool run_until(Deadline deadline, std::function<void()> action) {
  return run_until(
      deadline, std::move(action), [] {}, Timeout::max());
}

}  // namespace ddp
