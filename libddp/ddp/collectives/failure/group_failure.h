// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "ddp/base/error.h"

namespace ddp {

// The TimeoutError of a rank that was told of another rank's timeout.
class PeersTimeoutError : public TimeoutError {
 public:
  using TimeoutError::TimeoutError;
};

// A send and a recv that do not fit each other. The sentence, which ends the text, names ranks by
// their numbers in the job, so it is true in a group of which this one is a part, too.
class TransferMismatchError : public MismatchError {
 public:
  TransferMismatchError(const std::string& origin, std::string sentence)
      : MismatchError(origin + sentence), sentence_(std::move(sentence)) {}

  [[nodiscard]] const std::string& sentence() const { return sentence_; }

 private:
  std::string sentence_;
};

// What broke a group, as one rank tells the others: the class and the text of the exception that
// all of them throw, and which rank that is.
struct GroupFailure {
  enum class Kind { kPeer, kTimeout, kMismatch, kTransferMismatch };
  static constexpr int kUnknown = -1;

  Kind kind = Kind::kPeer;
  std::string sentence = {};
  std::string origin = {};  // what the text begins with, if that is no part of the sentence
  int by = kUnknown;        // number in the job of the rank that saw it first

  // TimeoutError and the two mismatches keep their kinds; any other error of a rank is kPeer for
  // the others.
  [[nodiscard]] static GroupFailure of(const std::exception& error);

  [[nodiscard]] std::string text() const { return origin + sentence; }
  // The text form, for the store and for shared memory:
  //   note := ("peer" | "timeout" | "mismatch" | "transfers") "\n" by "\n" origin "\n" sentence
  // The sentence may have several lines. Any other text is the sentence of a peer's error.
  [[nodiscard]] std::string note() const;
  [[nodiscard]] static GroupFailure from_note(const std::string& note);
  // What the rank with this number in the job throws.
  [[nodiscard]] std::exception_ptr error(int self = kUnknown) const;
};

}  // namespace ddp
