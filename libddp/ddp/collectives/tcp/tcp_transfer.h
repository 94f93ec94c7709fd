// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/tcp/tcp_wire.h"

namespace ddp {

// One send or recv: a signature of fixed size, the head, and then the payload, which the receiver
// accepts only after it has compared signatures. The transfers of a batch are first all started.
// Then each advances as soon as its next message has ended: the payload of a recv holds up whatever
// follows from that peer. Borrows the wire and the names.
class TcpTransfer {
 public:
  // `sequence` counts the sends to, or the recvs from, this peer.
  TcpTransfer(TcpWire& wire, int rank, const GroupNames& names, const Collective& operation,
              std::uint64_t sequence);

  [[nodiscard]] const CollectiveSignature& signature() const { return signature_; }
  [[nodiscard]] int peer() const { return operation_.peer; }
  [[nodiscard]] Timeout timeout() const { return operation_.context.timeout; }
  [[nodiscard]] Deadline deadline() const { return deadline_; }

  void start();
  // Null once all messages have ended.
  [[nodiscard]] const TcpWire::Message* awaited() const;
  // Goes on if the awaited message has ended. Throws MismatchError if the peer sends something else
  // than is expected.
  void advance();

 private:
  [[nodiscard]] bool sends() const { return operation_.kind == CollectiveKind::kSend; }
  [[nodiscard]] bool has_payload() const { return operation_.input.count > 0; }
  [[nodiscard]] TcpWire::Tag head_tag() const { return transfer_tag(2 * signature_.sequence); }
  [[nodiscard]] TcpWire::Tag payload_tag() const {
    return transfer_tag(2 * signature_.sequence + 1);
  }

  TcpWire& wire_;
  int rank_;
  const GroupNames& names_;
  Collective operation_;
  Deadline deadline_;
  CollectiveSignature signature_;
  CollectiveSignature wire_signature_;
  std::optional<TcpWire::Message> head_;
  std::optional<TcpWire::Message> payload_;
};

}  // namespace ddp
