// SPDX-License-Identifier: MIT
//
// For sources compiled with Gloo only.
#pragma once

#include <gloo/context.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"

namespace ddp {

// The collectives over a connected Gloo context, blocking, for one thread. Gloo only moves bytes
// and calls our reductions, so every dtype works. reduce_scatter is an all_to_all followed by a sum
// in rank order; reduce is an all_reduce of which all but the root drop the result.
class GlooAlgorithms {
 public:
  explicit GlooAlgorithms(std::shared_ptr<gloo::Context> context);

  // Runs a batch: its sends and receives together, then its collectives in order. Throws
  // MismatchError on every rank if the ranks' operations differ, gloo::Exception if Gloo fails.
  void run(std::span<const Collective> batch);

  // Whether what runs, or ran last, took as long as it may; then Gloo's errors are consequences. A
  // little less, since the first rank to give up takes its connections with it.
  [[nodiscard]] bool has_timed_out() const;
  [[nodiscard]] Timeout timeout() const { return context_->getTimeout(); }
  // What runs, or ran last.
  [[nodiscard]] const CollectiveSignature& current() const { return current_; }

 private:
  class Message;

  void run_transfers(std::span<const Collective> batch);
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
  CollectiveSignature current_;
  Clock::time_point begin_;  // of what runs
  std::uint64_t collectives_ = 0;
  std::uint32_t tag_ = 0;
  std::vector<std::uint64_t> sent_;      // messages to each rank
  std::vector<std::uint64_t> received_;  // messages from each rank
};

}  // namespace ddp
