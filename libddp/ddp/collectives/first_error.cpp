// SPDX-License-Identifier: MIT
#include "ddp/collectives/first_error.h"

#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"

namespace ddp {
namespace {

constexpr const char* kKey = "abort";

}  // namespace

void FirstError::set(std::exception_ptr error, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (is_set()) return;
  try {
    const std::string first = store_->compare_set(kKey, "", text);
    if (first != text) error = std::make_exception_ptr(PeerError(first));
  } catch (const std::exception& store_error) {
    log::warning("the other ranks could not be told \"" + text + "\": " + describe(store_error));
  }
  keep(std::move(error));
}

void FirstError::poll() {
  const std::lock_guard lock(mutex_);
  if (is_set() || !store_->has(kKey)) return;
  keep(std::make_exception_ptr(PeerError(store_->get(kKey))));
}

void FirstError::rethrow_if_set() const {
  if (is_set()) std::rethrow_exception(error_);
}

void FirstError::keep(std::exception_ptr error) {
  error_ = std::move(error);
  is_set_.store(true);
}

}  // namespace ddp
