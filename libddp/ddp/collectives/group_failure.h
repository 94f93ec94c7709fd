// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <string>

namespace ddp {

// What broke a group, as one rank tells the others.
struct GroupFailure {
  enum class Kind { kPeer, kTimeout, kMismatch };

  Kind kind = Kind::kPeer;
  std::string sentence;

  // For ranks that share nothing but the store:
  //   note := ["timeout: " | "mismatch: "] sentence
  [[nodiscard]] std::string note() const;
  [[nodiscard]] static GroupFailure from_note(const std::string& note);
  // A PeerError, TimeoutError or MismatchError.
  [[nodiscard]] std::exception_ptr error() const;
};

}  // namespace ddp
