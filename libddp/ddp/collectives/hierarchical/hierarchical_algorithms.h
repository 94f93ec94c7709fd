// SPDX-License-Identifier: MIT
//
// The collectives over several hosts: as much as possible is done inside each host, and a byte
// crosses between two hosts once, by their leaders.
//
//   all_reduce      reduce to the leader · all_reduce of the leaders · broadcast inside
//   reduce          reduce to the leader · all_reduce of the leaders · to the root
//   broadcast       the root to its host · broadcast of the leaders · broadcast inside
//   all_gather      gather to the leader · all_gather of the leaders · broadcast inside
//   gather          gather to the leader · gather of the leaders · to the root
//   scatter         from the root to its leader · scatter of the leaders · scatter inside
//   reduce_scatter  reduce to the leader · reduce_scatter of the leaders · scatter inside
//   barrier         inside the host · between the leaders · inside the host
//
// Operands move in chunks: while one chunk crosses between the hosts, the previous one is
// distributed inside them and the next one is collected. all_to_all, which has no better form, and
// transfers between hosts go directly from rank to rank.
//
// Summation order: first over the ranks of a host, in the order of the group inside the host, then
// over the hosts, in the order of the leaders' group. A 16-bit type is rounded after each of the
// two sums. One rank computes each element and the others copy its bits, or all compute it alike,
// so the result is the same on every rank, and from run to run as long as the ranks are on the
// hosts in the same way. For a kAverage the leaders divide their sums, before these are rounded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/hierarchical/host_blocks.h"
#include "ddp/collectives/hierarchical/host_groups.h"
#include "ddp/collectives/peers/host_layout.h"
#include "ddp/collectives/queue/queued_process_group.h"

namespace ddp {

// The calls block; they are for one thread.
class HierarchicalAlgorithms {
 public:
  // Layout and groups must outlive this object.
  HierarchicalAlgorithms(const HostLayout& layout, int rank, const HostGroups& groups);

  // Runs a batch: its sends and receives together, then its collectives in order. Rethrows errors
  // of the inner groups, which number ranks differently; throws MismatchError if this host's ranks
  // differ.
  void run(std::span<const Collective> batch);

  // The current or last operation; of several transfers, the one that timed out or lost its peer,
  // if that was on this rank.
  [[nodiscard]] const CollectiveSignature& current() const { return call_; }
  // The peer that the current transfer has lost.
  [[nodiscard]] std::optional<int> lost_peer() const { return lost_peer_; }
  [[nodiscard]] Timeout timeout() const { return timeout_; }
  // Whether it has taken as long as that; if it has not, a timeout is another rank's.
  [[nodiscard]] bool has_timed_out() const { return Clock::now() - began_ >= timeout_; }

 private:
  void begin(const CollectiveSignature& call, Timeout timeout);
  void run_transfers(std::span<const Collective> batch);
  bool submit_transfer(const Collective& operation);
  void note_failure(const Error& error, QueuedProcessGroup& group);
  void run_collective();
  void dispatch_collective();
  void agree_inside();

  void all_reduce();
  void reduce();
  void broadcast();
  void all_gather();
  void gather();
  void scatter();
  void reduce_scatter();
  void all_to_all();
  void barrier();

  // Runs, for each chunk, up(chunk), across(chunk), which the leaders start without waiting, and
  // down(chunk); up and down overlap with across of the neighbouring chunks.
  template <class Up, class Across, class Down>
  void run_in_chunks(const Up& up, const Across& across, const Down& down);

  // The steps inside the host, whose rank 0 is the leader; each blocks.
  void reduce_inside(const Buffer& data) const;
  void broadcast_inside(const Buffer& data, int from) const;
  // All ranks' inputs, one after the other, at the start of the leader's block; and the reverse.
  void gather_inside(const Buffer& input, const Buffer& block) const;
  void scatter_inside(const Buffer& block, const Buffer& output) const;
  // From one rank to another, or to itself.
  void move_inside(const Buffer& data, int from, int to) const;

  [[nodiscard]] HostLayout::Place root() const { return layout_.place(current_.peer); }
  [[nodiscard]] bool is_root() const { return rank_ == current_.peer; }
  [[nodiscard]] bool is_on_roots_host() const { return root().host == layout_.place(rank_).host; }
  // Of the sums inside the hosts; those between them are with the operation's own.
  [[nodiscard]] ReduceOp inside_op() const;

  const HostLayout& layout_;
  int rank_;
  const HostGroups& groups_;
  HostBlocks blocks_;
  std::vector<CollectiveSignature> calls_;  // of this host's ranks
  Collective current_;                      // the current or last collective
  CollectiveSignature call_;
  Timeout timeout_{};
  std::optional<int> lost_peer_;
  Clock::time_point began_;
  double divisor_ = 1;  // of the current operation, if it is a kAverage
  std::uint64_t collectives_ = 0;
};

}  // namespace ddp
