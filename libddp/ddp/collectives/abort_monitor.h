// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ddp/store/store.h"

namespace ddp {

// Carries the first cause of a group's end between ranks that share nothing but the store: the key
// "abort" under the group's prefix. Each rank looks at it every kPeriod on a connection of its own.
class AbortMonitor {
 public:
  static constexpr Timeout kPeriod{250};

  // `on_abort` gets the text, at most once, on the monitor's thread.
  AbortMonitor(const Store& store, std::function<void(const std::string&)> on_abort);
  ~AbortMonitor();
  AbortMonitor(const AbortMonitor&) = delete;
  AbortMonitor& operator=(const AbortMonitor&) = delete;

  // Publishes the cause unless another rank was first; returns the text that counts. Never throws:
  // if the store is gone, so is everybody who could read it.
  std::string post(const std::string& text) noexcept;

 private:
  void watch(const std::function<void(const std::string&)>& on_abort);

  std::shared_ptr<Store> store_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ddp
