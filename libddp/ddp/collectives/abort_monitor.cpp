// SPDX-License-Identifier: MIT
#include "ddp/collectives/abort_monitor.h"

#include "ddp/base/background_thread.h"
#include "ddp/base/error.h"
#include "ddp/base/log.h"

namespace ddp {
namespace {

constexpr const char* kKey = "abort";
// A store that cannot be reached any more must not hold up the end of a group.
constexpr Timeout kStoreTimeout = std::chrono::seconds(5);

}  // namespace

AbortMonitor::AbortMonitor(const Store& store, std::function<void(const std::string&)> on_abort)
    : store_(store.clone(kStoreTimeout)),
      thread_(start_background_thread(
          "ddp-abort", [this, on_abort = std::move(on_abort)] { watch(on_abort); })) {}

AbortMonitor::~AbortMonitor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

std::string AbortMonitor::post(const std::string& text) noexcept {
  try {
    return store_->compare_set(kKey, "", text);
  } catch (const std::exception& error) {
    log::debug(std::string("[abort_monitor] cannot publish: ") + error.what());
    return text;
  }
}

// Losing the store is no reason to stop: where an agent hosts it, losing the agent ends this
// process anyway; where rank 0 hosts it, rank 0 may simply have finished.
void AbortMonitor::watch(const std::function<void(const std::string&)>& on_abort) {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kPeriod, [this] { return stopping_; })) {
    lock.unlock();
    try {
      if (store_->has(kKey)) return on_abort(store_->get(kKey));
    } catch (const Error& error) {
      log::debug(std::string("[abort_monitor] stops watching: ") + error.what());
      return;
    }
    lock.lock();
  }
}

}  // namespace ddp
