// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/time.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/store/store.h"

namespace ddp {

// The error that broke a group whose ranks share no memory. It is stored under the key "abort" of
// the group's prefix, where the first rank to write wins. So all ranks throw the same cause, of the
// same class, and not its consequences. It has no thread: the owner calls poll() every kPeriod, on
// a thread that no hanging operation can block. If the store does not answer, that takes its
// timeout; breaking the group takes that once for it and for each parent.
//
// Losing the store does not break the group: if an agent hosts it, losing the agent ends this
// process anyway; if rank 0 hosts it, rank 0 may simply have finished.
//
// Thread-safe. set() and poll() talk to the store, and wait for the listener; the other calls never
// block.
class FirstError {
 public:
  static constexpr Timeout kPeriod{250};

  using Listener = std::function<void(const std::exception_ptr&)>;

  // `self` is this rank's number in the job. `listener` is called with the error, or with null
  // after leave(), before any other caller can see it, and before that the parent, if any, is
  // broken by the same error.
  FirstError(std::shared_ptr<Store> store, int self, Listener listener = nullptr,
             std::shared_ptr<FirstError> parent = nullptr);

  // Breaks the group, unless it is broken already. If another rank's error was first, that one
  // counts.
  template <class SomeError>
  void set(const SomeError& error) {
    set(std::make_exception_ptr(error), GroupFailure::of(error));
  }
  // As above, for an error that this rank describes differently to the others.
  void set(std::exception_ptr error, GroupFailure told);
  // As set(), if this rank leaves: that is an error of the others only, and the listeners get null.
  void leave(const PeerError& error);

  // Asks the store for another rank's error; true if the group is broken.
  [[nodiscard]] bool poll() noexcept;
  // The same, but does not ask a store that has not answered the last time.
  void poll_if_answering() noexcept {
    if (!store_is_silent_.load()) (void)poll();
  }
  [[nodiscard]] bool is_set() const { return is_set_.load(); }
  void rethrow_if_set() const;

 private:
  // An error that this rank has told the others, or is about to.
  struct Own {
    std::string note;
    std::exception_ptr error;
    bool leaves = false;
  };

  void tell(std::exception_ptr error, GroupFailure told, bool leaves);
  [[nodiscard]] std::string post(const std::string& note) noexcept;
  void keep(const std::string& note);

  std::shared_ptr<Store> store_;
  int self_;
  Listener listener_;
  std::shared_ptr<FirstError> parent_;
  std::mutex mutex_;
  std::vector<Own> own_;
  std::exception_ptr error_;  // written once, before is_set_
  std::atomic<bool> is_set_ = false;
  std::atomic<bool> store_is_lost_ = false;    // which poll() no longer asks then
  std::atomic<bool> store_is_silent_ = false;  // it has not answered the last poll()
};

}  // namespace ddp
