// SPDX-License-Identifier: MIT
//
// For sources compiled with Gloo only.
#pragma once

#include <gloo/context.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_names.h"

namespace ddp {

// The collectives over a connected Gloo context; they block, and are for one thread. Gloo only
// moves bytes and calls our reductions, so every dtype works. reduce_scatter is an all_to_all
// followed by a sum in rank order; reduce is an all_reduce whose result only the root keeps.
class GlooAlgorithms {
 public:
  GlooAlgorithms(std::shared_ptr<gloo::Context> context, GroupNames names);

  // Runs a batch: its sends and receives together, then its collectives in order. Throws
  // MismatchError on every rank if the ranks' operations differ, gloo::Exception if Gloo fails.
  void run(std::span<const Collective> batch);

  // Whether the current or last operation took (nearly) its whole timeout; Gloo's errors are then
  // consequences of it. Nearly, because the first rank to give up closes its connections.
  [[nodiscard]] bool has_timed_out() const;
  [[nodiscard]] Timeout timeout() const { return context_->getTimeout(); }
  // The current or last operation.
  [[nodiscard]] const CollectiveSignature& current() const { return current_; }
  // The peer of the send or recv that does not let its batch go on; -1 outside a batch. For any
  // thread.
  [[nodiscard]] int awaited_peer() const { return awaited_peer_.load(std::memory_order_relaxed); }

 private:
  class Message;

  void run_transfers(std::span<const Collective> batch);
  void await(const Message& message);
  void agree(std::uint64_t part_of);
  void begin(const CollectiveSignature& signature, Timeout timeout);
  void run_collective(const Collective& operation);

  void all_reduce(const Buffer& data, ReduceOp op);
  void reduce(const Collective& operation);
  void broadcast(const Collective& operation);
  void all_gather(const Collective& operation);
  void gather(const Collective& operation);
  void scatter(const Collective& operation);
  void all_to_all(const Buffer& input, const Buffer& output);
  void reduce_scatter(const Collective& operation);

  std::shared_ptr<gloo::Context> context_;
  GroupNames names_;
  CollectiveSignature current_;
  std::atomic<int> awaited_peer_ = -1;
  Clock::time_point begin_;  // of the current operation
  std::uint64_t collectives_ = 0;
  std::uint32_t tag_ = 0;
  std::vector<std::uint64_t> sent_;      // messages to each rank
  std::vector<std::uint64_t> received_;  // messages from each rank
};

}  // namespace ddp
