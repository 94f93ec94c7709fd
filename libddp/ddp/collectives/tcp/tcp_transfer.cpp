// SPDX-License-Identifier: MIT
#include "ddp/collectives/tcp/tcp_transfer.h"

#include <span>

#include "ddp/base/object_bytes.h"
#include "ddp/collectives/failure/group_failure.h"

namespace ddp {

TcpTransfer::TcpTransfer(TcpWire& wire, int rank, const GroupNames& names,
                         const Collective& operation, std::uint64_t sequence)
    : wire_(wire),
      rank_(rank),
      names_(names),
      operation_(operation),
      deadline_(wire.clock().after(operation.context.timeout)),
      signature_(signature_of(operation, sequence)),
      wire_signature_(signature_) {}

void TcpTransfer::start() {
  if (!sends()) {
    head_ = wire_.receive(peer(), head_tag(), bytes_of(wire_signature_));
    return;
  }
  head_ = wire_.send(peer(), head_tag(), bytes_of(wire_signature_));
  if (has_payload()) payload_ = wire_.send(peer(), payload_tag(), operation_.input);
}

const TcpWire::Message* TcpTransfer::awaited() const {
  if (!head_->has_ended()) return &*head_;
  return payload_ && !payload_->has_ended() ? &*payload_ : nullptr;
}

void TcpTransfer::advance() {
  if (sends() || payload_ || !head_->has_ended()) return;
  const std::string text = names_.mismatch_of_transfer(rank_, signature_, peer(), wire_signature_);
  if (!text.empty()) throw TransferMismatchError("", text);
  if (has_payload()) payload_ = wire_.receive(peer(), payload_tag(), operation_.input);
}

}  // namespace ddp
