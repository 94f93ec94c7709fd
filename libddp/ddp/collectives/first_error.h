// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "ddp/collectives/abort_monitor.h"
#include "ddp/store/store.h"

namespace ddp {

// The error that broke a group. It travels to the other ranks by way of the store, where the first
// rank to write wins: so all ranks name one cause, and not its consequences.
//
// Thread-safe. set() talks to the store; the rest never blocks.
class FirstError {
 public:
  using Listener = std::function<void(const std::exception_ptr&)>;

  // `listener` hears of the error before anybody else does.
  explicit FirstError(const Store& store, Listener listener = nullptr);

  // Breaks the group, unless it is broken. If another rank's error came first, that one is kept, as
  // PeerError.
  template <class SomeError>
  void set(const SomeError& error) {
    set(std::make_exception_ptr(error), error.what());
  }

  [[nodiscard]] bool is_set() const { return is_set_.load(); }
  void rethrow_if_set() const;

 private:
  void set(std::exception_ptr error, const std::string& text);
  void keep(std::exception_ptr error);

  Listener listener_;
  std::mutex mutex_;
  std::exception_ptr error_;  // written once, before is_set_
  std::atomic<bool> is_set_ = false;
  AbortMonitor monitor_;  // last: its thread uses the others
};

}  // namespace ddp
