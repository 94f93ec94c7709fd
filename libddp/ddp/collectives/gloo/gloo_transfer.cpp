// SPDX-License-Identifier: MIT
#include "ddp/collectives/gloo/gloo_transfer.h"

#include <gloo/types.h>

#include <span>

#include "ddp/base/error.h"

namespace ddp {
namespace {

// Of our own messages only those of collectives (gloo_algorithms.cpp) have another prefix.
constexpr std::uint8_t kTransferPrefix = 0x20;

Buffer bytes_of(CollectiveSignature& signature) {
  return {&signature, sizeof(signature), DType::kUInt8, kCpuDevice};
}

}  // namespace

GlooTransfer::GlooTransfer(const GlooWire& wire, const GroupNames& names,
                           const Collective& operation, std::uint64_t sequence)
    : wire_(wire),
      names_(names),
      operation_(operation),
      deadline_(Deadline::after(operation.timeout)),
      signature_(signature_of(operation, sequence)),
      wire_signature_(signature_) {}

std::uint64_t GlooTransfer::head_slot() const {
  return gloo::Slot::build(kTransferPrefix, static_cast<std::uint32_t>(signature_.sequence));
}

void GlooTransfer::start() {
  if (!sends()) {
    head_ = wire_.receive(peer(), head_slot(), bytes_of(wire_signature_));
    return;
  }
  head_ = wire_.send(peer(), head_slot(), bytes_of(wire_signature_));
  if (has_payload()) payload_ = wire_.send(peer(), payload_slot(), operation_.input);
}

void GlooTransfer::accept() {
  if (sends()) return;
  head_->wait(deadline_);
  CollectiveSignature expected = signature_;
  expected.kind = CollectiveKind::kSend;
  if (!(wire_signature_ == expected)) {
    throw MismatchError("send and recv" + names_.of_group() + " differ: " + names_.rank(peer()) +
                        " called " + to_string(wire_signature_) + " to " +
                        names_.rank(wire_.rank()) + ", which called " + to_string(signature_));
  }
  if (has_payload()) payload_ = wire_.receive(peer(), payload_slot(), operation_.input);
}

void GlooTransfer::finish() {
  if (sends()) head_->wait(deadline_);
  if (payload_) payload_->wait(deadline_);
}

}  // namespace ddp
