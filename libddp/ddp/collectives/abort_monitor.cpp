// SPDX-License-Identifier: MIT
#include "ddp/collectives/abort_monitor.h"

#include <utility>

#include "ddp/base/log.h"

namespace ddp {
namespace {

constexpr const char* kKey = "abort";

}  // namespace

AbortMonitor::AbortMonitor(const Store& store, std::function<void(const std::string&)> on_abort)
    : store_(store.clone(kBackgroundStoreTimeout)),
      on_abort_(std::move(on_abort)),
      thread_("ddp-abort", kPeriod, [this] { return look(); }) {}

std::string AbortMonitor::post(const std::string& text) noexcept {
  try {
    return store_->compare_set(kKey, "", text);
  } catch (const std::exception& error) {
    log::debug(std::string("[abort_monitor] cannot publish: ") + error.what());
    return text;
  }
}

std::string AbortMonitor::posted() const noexcept {
  try {
    return store_->has(kKey) ? store_->get(kKey) : "";
  } catch (const std::exception& error) {
    log::debug(std::string("[abort_monitor] cannot look: ") + error.what());
    return "";
  }
}

bool AbortMonitor::look() {
  if (!store_->has(kKey)) return true;
  on_abort_(store_->get(kKey));
  return false;
}

}  // namespace ddp
