// SPDX-License-Identifier: MIT
#include "ddp/base/threads/periodic_thread.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/log_if_possible.h"
#include "ddp/base/threads/background_thread.h"

namespace ddp {
namespace {

using Log = void(std::string_view);

// Describing an error may need memory, too.
void tell(Log& log, const std::string& name, const char* what, const std::exception& error) {
  log_if_possible([&] { log("[" + name + what + describe(error)); });
}

bool survives(const std::string& name, const std::function<bool()>& tick) {
  try {
    return tick();
  } catch (const TimeoutError& error) {
    tell(logging::debug, name, "] tries again: ", error);
    return true;
  } catch (const NetworkError& error) {
    tell(logging::debug, name, "] stops: ", error);
    return false;
  } catch (const std::exception& error) {
    tell(logging::warning, name, "] stops: ", error);
    return false;
  }
}

}  // namespace

PeriodicThread::PeriodicThread(const std::string& name, Timeout period, std::function<bool()> tick)
    : thread_(start_background_thread(
          name, [this, name, period, tick = std::move(tick)] { run(name, period, tick); })) {}

PeriodicThread::~PeriodicThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void PeriodicThread::run(const std::string& name, Timeout period,
                         const std::function<bool()>& tick) {
  const Timeout pause = std::min(period, kLongestTimeout);
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    if (!survives(name, tick)) return;
    lock.lock();
  } while (!stopped_.wait_for(lock, pause, [this] { return stopping_; }));
}

}  // namespace ddp
