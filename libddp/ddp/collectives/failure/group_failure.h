// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <string>

#include "ddp/base/time.h"

namespace ddp {

// What broke a group, as one rank tells the others: the class and the text of the exception that
// all of them throw.
struct GroupFailure {
  enum class Kind { kPeer, kTimeout, kMismatch };

  Kind kind = Kind::kPeer;
  std::string sentence;

  // TimeoutError and MismatchError keep their kinds; any other error of a rank is kPeer for the
  // others.
  [[nodiscard]] static GroupFailure of(const std::exception& error);

  // The text form for the store:
  //   note := ["timeout: " | "mismatch: "] sentence
  [[nodiscard]] std::string note() const;
  [[nodiscard]] static GroupFailure from_note(const std::string& note);
  // A PeerError, TimeoutError or MismatchError.
  [[nodiscard]] std::exception_ptr error() const;
};

// The text of a rank's TimeoutError: "ORIGIN: timed out after 300 ms: DIAGNOSIS", or "... in
// OPERATION" if the diagnosis is empty; then what sets the timeout.
[[nodiscard]] std::string timeout_sentence(const std::string& origin, Timeout timeout,
                                           const std::string& diagnosis,
                                           const std::string& operation);

}  // namespace ddp
