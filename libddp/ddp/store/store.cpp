// SPDX-License-Identifier: MIT
#include "ddp/store/store.h"

#include "ddp/base/error.h"

namespace ddp {
namespace {

// A value that no program stores.
constexpr std::string_view kNoValue = "ddp::Store::find: 6b1f0c52-3f6e-4f0e-9d0b-7f8f3f0a2c11";

}  // namespace

bool Store::wait_for(std::span<const std::string> keys, Timeout timeout) {
  try {
    wait(keys, timeout);
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

bool Store::wait_for(std::string_view key, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  return wait_for(keys, timeout);
}

// The protocol has no read that does not wait. But compare_set with a wrong guess returns the
// stored value or, if the key is missing, the guess.
std::optional<std::string> Store::find(std::string_view key) {
  std::string found = compare_set(key, kNoValue, kNoValue);
  if (found == kNoValue) return std::nullopt;
  return found;
}

}  // namespace ddp
