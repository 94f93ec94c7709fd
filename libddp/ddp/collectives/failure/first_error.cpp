// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/first_error.h"

#include <algorithm>
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
  tell(std::move(error), std::move(told), false);
}

void FirstError::leave(const PeerError& error) {
  tell(std::make_exception_ptr(error), GroupFailure::of(error), true);
}

// A thread that polls may find the note before this one comes to keep it.
void FirstError::tell(std::exception_ptr error, GroupFailure told, bool leaves) {
  if (is_set()) return;
  if (told.by == GroupFailure::kUnknown) told.by = self_;
  const std::string note = told.note();
  {
    const std::lock_guard lock(mutex_);
    own_.push_back({note, std::move(error), leaves});
  }
  keep(post(note));
}

bool FirstError::poll() noexcept {
  try {
    const bool asks = !is_set() && !store_is_lost_.load();
    const auto note = asks ? store_->find(kAbortKey) : std::nullopt;
    if (note) keep(*note);
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

void FirstError::keep(const std::string& note) {
  const std::lock_guard lock(mutex_);
  if (is_set()) return;
  const GroupFailure told = GroupFailure::from_note(note);
  const auto own = std::ranges::find(own_, note, &Own::note);
  const bool is_own = own != own_.end();
  const bool has_left = is_own && own->leaves;
  std::exception_ptr error = is_own ? own->error : told.error(self_);
  if (parent_) has_left ? parent_->leave(PeerError(told.text())) : parent_->set(error, told);
  error_ = std::move(error);
  if (listener_) listener_(has_left ? nullptr : error_);
  is_set_.store(true);
}

}  // namespace ddp
