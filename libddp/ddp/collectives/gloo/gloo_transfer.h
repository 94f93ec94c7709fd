// SPDX-License-Identifier: MIT
//
// For sources compiled with Gloo only.
#pragma once

#include <cstdint>
#include <optional>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/gloo/gloo_wire.h"
#include "ddp/collectives/group_names.h"

namespace ddp {

// One send or recv: a signature of fixed size, then the payload, which the receiver accepts only
// after it has compared signatures. The transfers of a batch are first all started, then all
// accepted, then all finished. Borrows the wire and the names.
class GlooTransfer {
 public:
  // `sequence` counts the sends to, or the recvs from, this peer.
  GlooTransfer(const GlooWire& wire, const GroupNames& names, const Collective& operation,
               std::uint64_t sequence);

  [[nodiscard]] const CollectiveSignature& signature() const { return signature_; }
  [[nodiscard]] int peer() const { return operation_.peer; }

  void start();
  // Throws MismatchError if the peer sends something else than is expected.
  void accept();
  void finish();

 private:
  [[nodiscard]] bool sends() const { return operation_.kind == CollectiveKind::kSend; }
  [[nodiscard]] bool has_payload() const { return operation_.input.count > 0; }
  [[nodiscard]] std::uint64_t head_slot() const;
  [[nodiscard]] std::uint64_t payload_slot() const { return head_slot() + 1; }

  const GlooWire& wire_;
  const GroupNames& names_;
  Collective operation_;
  Deadline deadline_;
  CollectiveSignature signature_;
  CollectiveSignature wire_signature_;
  std::optional<GlooWire::Message> head_;
  std::optional<GlooWire::Message> payload_;
};

}  // namespace ddp
