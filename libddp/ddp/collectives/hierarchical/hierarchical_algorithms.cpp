// SPDX-License-Identifier: MIT
#include "ddp/collectives/hierarchical/hierarchical_algorithms.h"

#include <algorithm>
#include <optional>

#include "ddp/base/object_bytes.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_scopes.h"

namespace ddp {
namespace {

// The size of a chunk that crosses between hosts: large enough to pay for agreeing on it, small
// enough for the steps of a large operation to overlap. Smaller chunks measured slower where CPUs
// are scarce.
constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

std::uint64_t hash_of(CollectiveSignature call) {
  std::uint64_t hash = 0;
  call.label = 0;  // may differ between ranks
  cpu::fingerprint(bytes_of(call), &hash);
  return hash;
}

// The chunk of an operand that is passed as a whole.
Buffer part_of(const Buffer& whole, const Chunk& chunk) {
  return whole.slice(chunk.begin, chunk.count);
}

// Collectives that work in the caller's memory need no blocks.
bool needs_blocks(CollectiveKind kind) {
  return kind != CollectiveKind::kAllReduce && kind != CollectiveKind::kBroadcast;
}

// True if no rank can finish before its leader knows that all hosts called the same collective.
bool waits_for_leader(CollectiveKind kind) {
  return kind != CollectiveKind::kReduce && kind != CollectiveKind::kBroadcast &&
         kind != CollectiveKind::kGather;
}

}  // namespace

HierarchicalAlgorithms::HierarchicalAlgorithms(const HostLayout& layout, int rank,
                                               const HostGroups& groups)
    : layout_(layout),
      rank_(rank),
      groups_(groups),
      blocks_(layout),
      calls_(static_cast<std::size_t>(groups.inside->world_size())) {}

void HierarchicalAlgorithms::run(std::span<const Collective> batch) {
  run_transfers(batch);
  for (const Collective& operation : batch) {
    if (is_transfer(operation.kind)) continue;
    begin(signature_of(operation, ++collectives_), operation.context.timeout);
    current_ = operation;
    run_collective();
  }
}

void HierarchicalAlgorithms::begin(const CollectiveSignature& call, Timeout timeout) {
  call_ = call;
  timeout_ = timeout;
  lost_peer_.reset();
  began_ = Clock::now();
}

// Transfers inside the host and those between hosts progress at the same time. This thread waits
// for the former first. If the latter fail meanwhile, also those of other ranks, then
// HostGroups::spread_failure() ends that wait, and they know why.
void HierarchicalAlgorithms::run_transfers(std::span<const Collective> batch) {
  if (std::ranges::none_of(batch, is_transfer, &Collective::kind)) return;
  ProcessGroup::Batch between(*groups_.flat);
  ProcessGroup::Batch inside(*groups_.inside);
  bool some_stay_inside = false;
  for (const Collective& operation : batch) {
    if (is_transfer(operation.kind)) some_stay_inside |= submit_transfer(operation);
  }
  const Work far = between.end();
  const Work near = inside.end();
  std::exception_ptr near_error;
  try {
    if (some_stay_inside) near.wait();
  } catch (const Error& error) {
    near_error = std::current_exception();
    note_failure(error, *groups_.fellows);
    if (!groups_.flat->is_broken()) throw;
  }
  try {
    far.wait();
  } catch (const Error& error) {
    note_failure(error, *groups_.flat);
    throw;
  }
  if (!near_error) return;
  // A transfer between hosts that was not this rank's has failed first.
  lost_peer_.reset();
  groups_.flat->check_unbroken();
  std::rethrow_exception(near_error);
}

// Returns whether it stays inside the host.
bool HierarchicalAlgorithms::submit_transfer(const Collective& operation) {
  begin(signature_of(operation, 0), operation.context.timeout);
  const HostLayout::Place peer = layout_.place(operation.peer);
  const bool stays_inside = peer.host == layout_.place(rank_).host;
  ProcessGroup& group = stays_inside ? *groups_.inside : *groups_.flat;
  const int rank = stays_inside ? peer.local_rank : operation.peer;
  const ScopedTimeout timeout(group, operation.context.timeout);
  if (operation.kind == CollectiveKind::kSend) {
    static_cast<void>(group.send(operation.input, rank));
  } else {
    static_cast<void>(group.recv(operation.input, rank));
  }
  return stays_inside;
}

// Which of the transfers has failed, and whether its peer is lost.
void HierarchicalAlgorithms::note_failure(const Error& error, QueuedProcessGroup& group) {
  const auto doing = group.failed_in();
  if (!doing) return;
  call_ = doing->call;
  timeout_ = doing->timeout;
  if (!doing->peer || dynamic_cast<const MismatchError*>(&error) != nullptr) return;
  const std::vector<int>& fellows =
      layout_.members[static_cast<std::size_t>(layout_.place(rank_).host)];
  lost_peer_ = &group == groups_.flat.get() ? *doing->peer
                                            : fellows.at(static_cast<std::size_t>(*doing->peer));
}

// The leaders' own calls compare a hash of what the ranks of each host have agreed on.
void HierarchicalAlgorithms::run_collective() {
  const ScopedTimeout inside(*groups_.inside, current_.context.timeout);
  std::optional<ScopedTimeout> between;
  std::optional<ScopedPart> part;
  std::optional<ScopedDivisor> divided;
  if (groups_.leaders) {
    between.emplace(*groups_.leaders, current_.context.timeout);
    part.emplace(*groups_.leaders, hash_of(call_));
    divisor_ =
        current_.context.divisor != nullptr ? *current_.context.divisor : layout_.world_size();
    divided.emplace(*groups_.leaders, &divisor_);
  }
  agree_inside();
  if (call_.count == 0) return barrier();
  dispatch_collective();
  if (!waits_for_leader(current_.kind)) groups_.inside->barrier().wait();
}

void HierarchicalAlgorithms::agree_inside() {
  CollectiveSignature own = call_;
  groups_.inside->all_gather(bytes_of(own), bytes_of(std::span(calls_))).wait();
  for (const CollectiveSignature& call : calls_) {
    if (!(call == own)) throw MismatchError("the ranks of a host called different collectives");
  }
}

void HierarchicalAlgorithms::dispatch_collective() {
  switch (current_.kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce();
    case CollectiveKind::kReduce:
      return reduce();
    case CollectiveKind::kBroadcast:
      return broadcast();
    case CollectiveKind::kAllGather:
      return all_gather();
    case CollectiveKind::kGather:
      return gather();
    case CollectiveKind::kScatter:
      return scatter();
    case CollectiveKind::kReduceScatter:
      return reduce_scatter();
    case CollectiveKind::kAllToAll:
      return all_to_all();
    case CollectiveKind::kBarrier:
      return barrier();
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
      return;
  }
}

template <class Up, class Across, class Down>
void HierarchicalAlgorithms::run_in_chunks(const Up& up, const Across& across, const Down& down) {
  const std::size_t limit = needs_blocks(call_.kind) ? blocks_.chunk_of(call_.dtype, kChunkBytes)
                                                     : kChunkBytes / size_of(call_.dtype);
  const std::size_t size = std::min<std::size_t>(limit, call_.count);
  if (needs_blocks(call_.kind)) blocks_.prepare(call_.dtype, size);
  std::optional<Chunk> before;
  Work crossing;
  for (std::size_t begin = 0; begin < call_.count; begin += size) {
    const Chunk now{begin, std::min(size, call_.count - begin), before && !before->is_odd};
    up(now);
    if (before && groups_.leaders) crossing.wait();
    if (groups_.leaders) crossing = across(now);
    if (before) down(*before);
    before = now;
  }
  if (groups_.leaders) crossing.wait();
  down(*before);
}

void HierarchicalAlgorithms::all_reduce() {
  const Buffer& data = current_.input;
  run_in_chunks([&](const Chunk& chunk) { reduce_inside(part_of(data, chunk)); },
                [&](const Chunk& chunk) {
                  return groups_.leaders->all_reduce(part_of(data, chunk), current_.op);
                },
                [&](const Chunk& chunk) { broadcast_inside(part_of(data, chunk), 0); });
}

// A leader that is not the root leaves its operand unchanged.
void HierarchicalAlgorithms::reduce() {
  const Buffer& data = current_.input;
  const bool is_copied = groups_.leaders && !is_root();
  const auto sum = [&](const Chunk& chunk) {
    return is_copied ? blocks_.block(chunk).slice(0, chunk.count) : part_of(data, chunk);
  };
  run_in_chunks(
      [&](const Chunk& chunk) {
        if (is_copied) cpu::copy(part_of(data, chunk), sum(chunk));
        reduce_inside(sum(chunk));
      },
      [&](const Chunk& chunk) { return groups_.leaders->all_reduce(sum(chunk), current_.op); },
      [&](const Chunk& chunk) {
        if (is_on_roots_host()) move_inside(sum(chunk), 0, root().local_rank);
      });
}

void HierarchicalAlgorithms::broadcast() {
  const Buffer& data = current_.input;
  run_in_chunks(
      [&](const Chunk& chunk) {
        if (is_on_roots_host()) broadcast_inside(part_of(data, chunk), root().local_rank);
      },
      [&](const Chunk& chunk) {
        return groups_.leaders->broadcast(part_of(data, chunk), root().host);
      },
      [&](const Chunk& chunk) {
        if (!is_on_roots_host()) broadcast_inside(part_of(data, chunk), 0);
      });
}

void HierarchicalAlgorithms::all_gather() {
  run_in_chunks(
      [&](const Chunk& chunk) {
        gather_inside(part_of(current_.input, chunk), blocks_.block(chunk));
      },
      [&](const Chunk& chunk) {
        return groups_.leaders->all_gather(blocks_.block(chunk), blocks_.blocks(chunk));
      },
      [&](const Chunk& chunk) {
        broadcast_inside(blocks_.blocks(chunk), 0);
        blocks_.unpack(chunk, current_.output);
      });
}

void HierarchicalAlgorithms::gather() {
  run_in_chunks(
      [&](const Chunk& chunk) {
        gather_inside(part_of(current_.input, chunk), blocks_.block(chunk));
      },
      [&](const Chunk& chunk) {
        return groups_.leaders->gather(blocks_.block(chunk), blocks_.blocks(chunk), root().host);
      },
      [&](const Chunk& chunk) {
        if (is_on_roots_host()) move_inside(blocks_.blocks(chunk), 0, root().local_rank);
        if (is_root()) blocks_.unpack(chunk, current_.output);
      });
}

void HierarchicalAlgorithms::scatter() {
  run_in_chunks(
      [&](const Chunk& chunk) {
        if (is_root()) blocks_.pack(current_.input, chunk);
        if (is_on_roots_host()) move_inside(blocks_.blocks(chunk), root().local_rank, 0);
      },
      [&](const Chunk& chunk) {
        return groups_.leaders->scatter(blocks_.blocks(chunk), blocks_.block(chunk), root().host);
      },
      [&](const Chunk& chunk) {
        scatter_inside(blocks_.block(chunk), part_of(current_.output, chunk));
      });
}

void HierarchicalAlgorithms::reduce_scatter() {
  run_in_chunks(
      [&](const Chunk& chunk) {
        blocks_.pack(current_.input, chunk);
        reduce_inside(blocks_.blocks(chunk));
      },
      [&](const Chunk& chunk) {
        return groups_.leaders->reduce_scatter(blocks_.blocks(chunk), blocks_.block(chunk),
                                               current_.op);
      },
      [&](const Chunk& chunk) {
        scatter_inside(blocks_.block(chunk), part_of(current_.output, chunk));
      });
}

// The leaders' barrier detects other hosts that called something else.
void HierarchicalAlgorithms::all_to_all() {
  barrier();
  const ScopedTimeout timeout(*groups_.flat, current_.context.timeout);
  groups_.flat->all_to_all(current_.input, current_.output).wait();
}

// Agreeing on the call was the barrier inside the host.
void HierarchicalAlgorithms::barrier() {
  if (groups_.leaders) groups_.leaders->barrier().wait();
  groups_.inside->barrier().wait();
}

void HierarchicalAlgorithms::reduce_inside(const Buffer& data) const {
  groups_.inside->reduce(data, 0, inside_op()).wait();
}

void HierarchicalAlgorithms::broadcast_inside(const Buffer& data, int from) const {
  groups_.inside->broadcast(data, from).wait();
}

void HierarchicalAlgorithms::gather_inside(const Buffer& input, const Buffer& block) const {
  groups_.inside->gather(input, block.slice(0, input.count * calls_.size()), 0).wait();
}

void HierarchicalAlgorithms::scatter_inside(const Buffer& block, const Buffer& output) const {
  groups_.inside->scatter(block.slice(0, output.count * calls_.size()), output, 0).wait();
}

void HierarchicalAlgorithms::move_inside(const Buffer& data, int from, int to) const {
  if (from == to) return;
  if (groups_.inside->rank() == from) groups_.inside->send(data, to).wait();
  if (groups_.inside->rank() == to) groups_.inside->recv(data, from).wait();
}

ReduceOp HierarchicalAlgorithms::inside_op() const {
  return current_.op == ReduceOp::kAverage ? ReduceOp::kSum : current_.op;
}

}  // namespace ddp
