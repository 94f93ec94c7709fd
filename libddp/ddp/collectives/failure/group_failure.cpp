// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/group_failure.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "ddp/base/field_lines.h"

namespace ddp {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"peer", "timeout", "mismatch", "transfers"};

}  // namespace

GroupFailure GroupFailure::of(const std::exception& error) {
  const std::string text = error.what();
  if (const auto* transfers = dynamic_cast<const TransferMismatchError*>(&error)) {
    const std::string& sentence = transfers->sentence();
    return {Kind::kTransferMismatch, sentence, text.substr(0, text.size() - sentence.size())};
  }
  if (dynamic_cast<const TimeoutError*>(&error) != nullptr) return {Kind::kTimeout, text};
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) return {Kind::kMismatch, text};
  return {Kind::kPeer, text};
}

std::string GroupFailure::note() const {
  FieldWriter fields;
  fields << kKinds.at(static_cast<std::size_t>(kind)) << by << origin;
  return fields.text() + sentence;
}

GroupFailure GroupFailure::from_note(const std::string& note) {
  GroupFailure failure;
  std::string kind;
  FieldReader fields(note);
  fields >> kind >> failure.by >> failure.origin;
  const auto known = std::ranges::find(kKinds, kind);
  if (!fields || known == kKinds.end()) return {.sentence = note};
  failure.kind = static_cast<Kind>(known - kKinds.begin());
  failure.sentence = fields.rest();
  return failure;
}

std::exception_ptr GroupFailure::error(int self) const {
  switch (kind) {
    case Kind::kTimeout:
      if (by != self) return std::make_exception_ptr(PeersTimeoutError(text()));
      return std::make_exception_ptr(TimeoutError(text()));
    case Kind::kMismatch:
      return std::make_exception_ptr(MismatchError(text()));
    case Kind::kTransferMismatch:
      return std::make_exception_ptr(TransferMismatchError(origin, sentence));
    case Kind::kPeer:
      break;
  }
  return std::make_exception_ptr(PeerError(text()));
}

}  // namespace ddp
