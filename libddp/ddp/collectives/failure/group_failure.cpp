// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/group_failure.h"

#include <string_view>

#include "ddp/base/error.h"

namespace ddp {
namespace {

constexpr std::string_view kTimeoutNote = "timeout: ";
constexpr std::string_view kMismatchNote = "mismatch: ";

}  // namespace

GroupFailure GroupFailure::of(const std::exception& error) {
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) return {Kind::kTimeout, error.what()};
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) return {Kind::kMismatch, error.what()};
  return {Kind::kPeer, error.what()};
}

std::string GroupFailure::note() const {
  switch (kind) {
    case Kind::kTimeout:
      return std::string(kTimeoutNote) + sentence;
    case Kind::kMismatch:
      return std::string(kMismatchNote) + sentence;
    case Kind::kPeer:
      break;
  }
  return sentence;
}

GroupFailure GroupFailure::from_note(const std::string& note) {
  if (note.starts_with(kTimeoutNote)) return {Kind::kTimeout, note.substr(kTimeoutNote.size())};
  if (note.starts_with(kMismatchNote)) return {Kind::kMismatch, note.substr(kMismatchNote.size())};
  return {Kind::kPeer, note};
}

std::exception_ptr GroupFailure::error() const {
  switch (kind) {
    case Kind::kTimeout:
      return std::make_exception_ptr(TimeoutError(sentence));
    case Kind::kMismatch:
      return std::make_exception_ptr(MismatchError(sentence));
    case Kind::kPeer:
      break;
  }
  return std::make_exception_ptr(PeerError(sentence));
}

}  // namespace ddp
