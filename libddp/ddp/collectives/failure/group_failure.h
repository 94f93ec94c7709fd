// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <string>

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

}  // namespace ddp
