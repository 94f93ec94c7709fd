// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ddp/base/periodic_thread.h"
#include "ddp/store/store.h"

namespace ddp {

// Carries the first cause of a group's end between ranks that share nothing but the store: the key
// "abort" under the group's prefix. Each rank looks at it every kPeriod on a connection of its own.
//
// Losing the store is no reason to stop: where an agent hosts it, losing the agent ends this
// process anyway; where rank 0 hosts it, rank 0 may simply have finished.
class AbortMonitor {
 public:
  static constexpr Timeout kPeriod{250};

  // `on_abort` gets the text, at most once, on the monitor's thread.
  AbortMonitor(const Store& store, std::function<void(const std::string&)> on_abort);

  // Publishes the cause unless another rank was first; returns the text that counts. Never throws:
  // if the store is gone, so is everybody who could read it.
  std::string post(const std::string& text) noexcept;

  // What was published so far; empty if nothing was, or the store is gone.
  [[nodiscard]] std::string posted() const noexcept;

 private:
  bool look();

  std::shared_ptr<Store> store_;
  std::function<void(const std::string&)> on_abort_;
  PeriodicThread thread_;  // last: it uses the others
};

}  // namespace ddp
