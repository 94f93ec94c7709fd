// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/shm/shm_member.h"
#include "ddp/collectives/transfer_counts.h"

namespace ddp::shm {

// One send or recv in progress through a channel, block by block. It never blocks, so that several
// transfers can make progress in turn.
class Transfer {
 public:
  // `sequence` counts the messages in this direction between the two ranks.
  Transfer(Member& self, const Collective& operation, std::uint64_t sequence);

  // Moves as many blocks as it can; true once all have been moved. Throws MismatchError (and breaks
  // the group) if the two sides disagree about count or dtype.
  bool advance();
  // True if advance() would move something.
  [[nodiscard]] bool can_advance() const;
  [[nodiscard]] bool done() const { return moved_blocks_ == total_blocks_; }
  [[nodiscard]] const CollectiveSignature& signature() const { return signature_; }
  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] Timeout timeout() const { return timeout_; }
  [[nodiscard]] Deadline deadline() const { return deadline_; }
  [[nodiscard]] bool shares_channel_with(const Transfer& other) const {
    return channel_ == other.channel_;
  }

 private:
  void move_block();
  void check_signature(const CollectiveSignature& theirs);

  Member* self_;
  Channel* channel_;
  CollectiveSignature signature_;
  int peer_;
  bool sends_;
  std::byte* data_;
  std::size_t size_bytes_;
  std::size_t moved_blocks_ = 0;
  std::size_t total_blocks_;  // an empty message is one empty block
  Timeout timeout_;
  Deadline deadline_;
};

// Runs the sends and receives of batches.
class TransferRunner {
 public:
  explicit TransferRunner(Member& self);

  // Completes those among these operations. They progress in turn, so that two ranks can send to
  // each other at the same time; transfers in one direction between two ranks keep their order.
  void run(std::span<const Collective> batch);

 private:
  void begin(const Collective& operation);
  void advance();
  void wait();
  [[nodiscard]] bool is_behind_another(std::size_t index) const;

  Member& self_;
  TransferCounts counts_;
  std::vector<Transfer> running_;
};

}  // namespace ddp::shm
