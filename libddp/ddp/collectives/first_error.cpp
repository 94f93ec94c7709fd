// SPDX-License-Identifier: MIT
#include "ddp/collectives/first_error.h"

#include <utility>

#include "ddp/base/error.h"

namespace ddp {

FirstError::FirstError(const Store& store, Listener listener)
    : listener_(std::move(listener)), monitor_(store, [this](const std::string& text) {
        keep(std::make_exception_ptr(PeerError(text)));
      }) {}

void FirstError::set(std::exception_ptr error, const std::string& text) {
  if (is_set()) return;
  const std::string first = monitor_.post(text);
  keep(first == text ? std::move(error) : std::make_exception_ptr(PeerError(first)));
}

void FirstError::rethrow_if_set() const {
  if (is_set()) std::rethrow_exception(error_);
}

void FirstError::keep(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (is_set()) return;
  error_ = std::move(error);
  if (listener_) listener_(error_);
  is_set_.store(true);
}

}  // namespace ddp
