// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "ddp/store/store.h"

namespace ddp {

// The error that broke a group. It travels to the other ranks under the store key "abort", where
// the first rank to write wins: so all ranks name one cause, and not its consequences.
//
// Thread-safe. set() and poll() talk to the store; the rest never blocks.
class FirstError {
 public:
  // The store must not be waited on by others: give it a clone.
  explicit FirstError(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  // Breaks the group, unless it is broken. If another rank's error came first, that one is kept, as
  // PeerError. A store that fails does not matter: this rank's error is kept.
  template <class SomeError>
  void set(const SomeError& error) {
    set(std::make_exception_ptr(error), error.what());
  }

  // Takes over another rank's error if there is one. Throws what the store throws.
  void poll();

  [[nodiscard]] bool is_set() const { return is_set_.load(); }
  void rethrow_if_set() const;

 private:
  void set(std::exception_ptr error, const std::string& text);
  void keep(std::exception_ptr error);

  std::shared_ptr<Store> store_;
  std::mutex mutex_;
  std::exception_ptr error_;  // written once, before is_set_
  std::atomic<bool> is_set_ = false;
};

}  // namespace ddp
