// SPDX-License-Identifier: MIT
//
// The collectives over TCP. Every rank sends directly to every other:
//
//   each collective    first every rank's head to every rank: the signature, and the rank's whole
//                      input if it is small. Then each rank computes its result, or:
//   all_reduce         blocks to the ranks that sum them · sums to every rank; with two ranks, or
//                      below a few KiB, the whole input to every rank
//   reduce             the same, but sums, or whole inputs, go to the root only
//   broadcast          blocks from the root to the ranks · blocks to every rank; or the whole
//   reduce_scatter     shares to the ranks that sum them
//   all_gather, gather, scatter, all_to_all    shares to the ranks that need them
//
// So an operation takes one or two exchanges after the heads, whatever the number of ranks, where a
// ring takes one for each rank. Large sums are computed in segments that overlap.
//
// Sums are in the order of ranks and rounded once, so the result has the same bits on every rank
// and in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/tcp/tcp_transfer.h"
#include "ddp/collectives/tcp/tcp_wire.h"
#include "ddp/collectives/transfer_counts.h"

namespace ddp {

// The calls block; they are for one thread.
class TcpAlgorithms {
 public:
  // Borrows the wire.
  TcpAlgorithms(TcpWire& wire, int rank, int world_size, GroupNames names);

  // Runs a batch: its sends and receives together, then its collectives in order. Throws
  // MismatchError on every rank if the ranks' operations differ, and what TcpWire throws.
  void run(std::span<const Collective> batch);

  [[nodiscard]] Timeout timeout() const { return timeout_; }
  // The current or last operation.
  [[nodiscard]] const CollectiveSignature& current() const { return current_; }

 private:
  // The largest input, in bytes, that travels with the signature.
  static constexpr std::size_t kHeadBytes = 1024;

  // What the ranks of a collective compare.
  struct Call {
    CollectiveSignature signature;
    std::uint64_t part_of = 0;

    friend bool operator==(const Call&, const Call&) = default;
  };
  struct Head {
    Call call;
    alignas(kHostAlignment) std::byte input[kHeadBytes];
  };

  class Exchange;
  struct Segment;

  [[nodiscard]] static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  // Part `rank` of a buffer that is cut into parts for all ranks.
  [[nodiscard]] static Buffer part_of(const Buffer& whole, int rank, int ranks);

  void run_batch(std::span<const Collective> batch);
  void run_transfers(std::span<const Collective> batch);
  void finish(std::vector<TcpTransfer>& transfers);
  void await_one_of(std::span<TcpTransfer* const> running);
  void begin(const CollectiveSignature& signature, Timeout timeout);

  void agree(const Collective& operation);
  void run_collective(const Collective& operation);

  void reduce(const Collective& operation, std::optional<int> root);
  void reduce_scatter(const Collective& operation);
  void sum_heads(const Collective& operation, std::size_t offset, const Buffer& sum);
  static void sum_terms(const Collective& operation, std::span<const Buffer> terms,
                        const Buffer& sum);
  using Start = std::function<Segment(std::size_t begin, std::size_t end, std::size_t place)>;
  static void run_segments(std::size_t count, std::size_t size, const Start& start,
                           const std::function<void(Segment&)>& finish);
  [[nodiscard]] Segment start_segment(const std::function<Buffer(int)>& part_for, const Buffer& sum,
                                      std::size_t place);
  static void sum(const Collective& operation, Segment& segment);
  // The elements that a rank sums in one segment, if it sums `count` in all. Reserves their places.
  [[nodiscard]] std::size_t block_of(std::size_t count, DType dtype);
  [[nodiscard]] void* term_place(std::size_t place, int rank) const;

  void broadcast(const Collective& operation);
  void broadcast_blocks(const Collective& operation);
  void all_gather(const Collective& operation);
  void gather(const Collective& operation);
  void scatter(const Collective& operation);
  void all_to_all(const Collective& operation);

  [[nodiscard]] std::string explain(const TcpWire::Unexpected& message) const;
  [[nodiscard]] bool uses_blocks(const Buffer& data) const;
  // The input of a rank that has come with its head; only its first elements are used.
  [[nodiscard]] Buffer input_in_head(int rank, DType dtype);

  TcpWire& wire_;
  int rank_;
  int world_size_;
  GroupNames names_;
  CollectiveSignature current_;
  Timeout timeout_{};  // of the current operation, as is the next one
  Deadline deadline_ = Deadline::after(Timeout(0));
  std::uint64_t collectives_ = 0;
  std::uint64_t exchanges_ = 0;
  std::vector<int> others_;  // the ranks except this one
  std::vector<Head> heads_;  // by rank
  bool is_in_head_ = false;  // the inputs of the current collective have come with the heads
  Allocation terms_memory_;  // the terms of the segments that are on their way, by rank
  std::size_t term_bytes_ = 0;
  TransferCounts transfers_;
};

}  // namespace ddp
