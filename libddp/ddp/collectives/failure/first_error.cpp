// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/first_error.h"

#include <optional>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"

namespace ddp {
namespace {

constexpr const char* kAbortKey = "abort";

}  // namespace

FirstError::FirstError(std::shared_ptr<Store> store, int self, Listener listener,
                       std::shared_ptr<FirstError> parent)
    : store_(std::move(store)),
      self_(self),
      listener_(std::move(listener)),
      parent_(std::move(parent)) {}

void FirstError::set(std::exception_ptr error, GroupFailure told) {
  if (is_set()) return;
  if (told.by == GroupFailure::kUnknown) told.by = self_;
  const std::string own = told.note();
  const std::string first = post(own);
  if (first == own) return keep(std::move(error), told);
  keep_told(first);
}

// A thread that polls may find the note before this one comes to keep it.
void FirstError::leave(const PeerError& error) {
  GroupFailure told = GroupFailure::of(error);
  told.by = self_;
  {
    const std::lock_guard lock(mutex_);
    left_ = told.note();
  }
  set(std::make_exception_ptr(error), std::move(told));
}

bool FirstError::poll() noexcept {
  try {
    const bool asks = !is_set() && !store_is_lost_.load();
    const auto note = asks ? store_->find(kAbortKey) : std::nullopt;
    if (note) keep_told(*note);
    store_is_silent_.store(false);
  } catch (const TimeoutError& error) {
    store_is_silent_.store(true);
    logging::debug(std::string("[first_error] the store does not answer: ") + error.what());
  } catch (const NetworkError& error) {
    store_is_lost_.store(true);
    logging::debug(std::string("[first_error] cannot read the other ranks' errors any more: ") +
                   error.what());
  } catch (const std::exception& error) {
    logging::debug(std::string("[first_error] cannot read the other ranks' errors now: ") +
                   error.what());
  }
  return is_set();
}

void FirstError::rethrow_if_set() const {
  if (is_set()) std::rethrow_exception(error_);
}

// Returns the note that was written first. If the store is gone, nobody could read it anyway.
std::string FirstError::post(const std::string& note) noexcept {
  try {
    return store_->compare_set(kAbortKey, "", note);
  } catch (const std::exception& error) {
    logging::debug(std::string("[first_error] cannot tell the other ranks of this rank's error: ") +
                   error.what());
    return note;
  }
}

void FirstError::keep_told(const std::string& note) {
  const GroupFailure failure = GroupFailure::from_note(note);
  keep(failure.error(self_), failure);
}

void FirstError::keep(std::exception_ptr error, const GroupFailure& told) {
  const std::lock_guard lock(mutex_);
  if (is_set()) return;
  const bool has_left = told.note() == left_;
  if (parent_) has_left ? parent_->leave(PeerError(told.text())) : parent_->set(error, told);
  error_ = std::move(error);
  if (listener_) listener_(has_left ? nullptr : error_);
  is_set_.store(true);
}

}  // namespace ddp
