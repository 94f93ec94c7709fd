// SPDX-License-Identifier: MIT
#include "ddp/collectives/tcp/tcp_algorithms.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {
namespace {

// From this size on, blocks save more time than the second exchange takes.
constexpr std::size_t kBlocksFromBytes = std::size_t{16} << 10;
// What a rank sums in one segment: large enough to pay for its messages, small enough for segments
// to overlap and, times the ranks, for their terms to fit into memory.
constexpr std::size_t kMostBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastBlockBytes = std::size_t{64} << 10;
constexpr std::size_t kSegmentBytes = std::size_t{8} << 20;
// Segments of which messages may be on their way before the first of them is summed.
constexpr std::size_t kSegmentsAhead = 3;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

template <class T>
Buffer bytes_of(T& object) {
  return {&object, sizeof(object), DType::kUInt8, kCpuDevice};
}

// Part `rank` of a buffer that is cut into parts for all ranks. They differ by at most one element.
Buffer part_of(const Buffer& whole, int rank, int ranks) {
  const std::size_t begin = whole.count * index(rank) / index(ranks);
  const std::size_t end = whole.count * index(rank + 1) / index(ranks);
  return whole.slice(begin, end - begin);
}

// A rank's own share of an input may already lie at its place in the output.
void copy_own(const Buffer& source, const Buffer& target) {
  if (source.data != target.data) cpu::copy(source, target);
}

}  // namespace

// Messages between this rank and others that have the same number on all ranks.
class TcpAlgorithms::Exchange {
 public:
  explicit Exchange(TcpAlgorithms& owner) : owner_(owner), tag_(exchange_tag(owner.exchanges_++)) {}

  void send(int peer, const Buffer& data) {
    if (data.count > 0) messages_.push_back(owner_.wire_.send(peer, tag_, data));
  }
  void receive(int peer, const Buffer& data) {
    if (data.count > 0) messages_.push_back(owner_.wire_.receive(peer, tag_, data));
  }

  // The same for parts of the ranks' inputs, which may have come with the heads. `offset` is where
  // the part begins in the peer's input.
  void send_input(int peer, const Buffer& part) {
    if (!owner_.is_in_head_) send(peer, part);
  }
  void receive_input(int peer, std::size_t offset, const Buffer& target) {
    if (!owner_.is_in_head_) return receive(peer, target);
    cpu::copy(owner_.input_in_head(peer, target.dtype).slice(offset, target.count), target);
  }

  void finish() {
    for (TcpWire::Message& message : messages_) message.wait(owner_.deadline_);
    messages_.clear();
  }

 private:
  TcpAlgorithms& owner_;
  TcpWire::Tag tag_;
  std::vector<TcpWire::Message> messages_;
};

// A part of a sum over ranks: the elements that this rank sums, and the messages of that part.
struct TcpAlgorithms::Segment {
  Buffer sum;                 // may be the place of this rank's term
  std::vector<Buffer> terms;  // by rank
  Exchange inputs;
  Exchange sums;  // only if ranks sum blocks
};

TcpAlgorithms::TcpAlgorithms(TcpWire& wire, int rank, int world_size, GroupNames names)
    : wire_(wire),
      rank_(rank),
      world_size_(world_size),
      names_(std::move(names)),
      heads_(index(world_size_)),
      sent_(index(world_size_)),
      received_(index(world_size_)) {
  for (int other = 0; other < world_size_; ++other) {
    if (other != rank_) others_.push_back(other);
  }
}

void TcpAlgorithms::run(std::span<const Collective> batch) {
  try {
    run_batch(batch);
  } catch (const TcpWire::Unexpected& message) {
    throw MismatchError(explain(message));
  }
}

void TcpAlgorithms::run_batch(std::span<const Collective> batch) {
  run_transfers(batch);
  for (const Collective& operation : batch) {
    if (is_transfer(operation.kind)) continue;
    begin(signature_of(operation, ++collectives_), operation.timeout);
    agree(operation);
    if (current_.count > 0) run_collective(operation);
  }
}

void TcpAlgorithms::run_transfers(std::span<const Collective> batch) {
  std::vector<TcpTransfer> transfers;
  for (const Collective& operation : batch) {
    if (!is_transfer(operation.kind)) continue;
    auto& counts = operation.kind == CollectiveKind::kSend ? sent_ : received_;
    const std::uint64_t sequence = ++counts[index(operation.peer)];
    begin(signature_of(operation, sequence), operation.timeout);
    transfers.emplace_back(wire_, rank_, names_, operation, sequence);
  }
  for (TcpTransfer& transfer : transfers) transfer.start();
  accept(transfers);
  for (TcpTransfer& transfer : transfers) {
    begin(transfer.signature(), transfer.timeout());
    transfer.finish();
  }
}

// In the order in which the heads come: a peer may wait for another transfer of this rank before it
// sends the head that this rank waits for.
void TcpAlgorithms::accept(std::vector<TcpTransfer>& transfers) {
  std::vector<TcpTransfer*> awaited;
  for (TcpTransfer& transfer : transfers) {
    if (transfer.awaited_head() != nullptr) awaited.push_back(&transfer);
  }
  std::vector<const TcpWire::Message*> heads;
  while (!awaited.empty()) {
    const auto first_to_end = std::ranges::min_element(
        awaited, {}, [](const TcpTransfer* each) { return each->deadline().time_point(); });
    begin((*first_to_end)->signature(), (*first_to_end)->timeout());
    heads.clear();
    for (const TcpTransfer* each : awaited) heads.push_back(each->awaited_head());
    wire_.wait_for_any(heads, (*first_to_end)->deadline());
    std::erase_if(awaited, [this](TcpTransfer* each) {
      if (!each->awaited_head()->has_ended()) return false;
      begin(each->signature(), each->timeout());
      each->accept();
      return true;
    });
  }
}

void TcpAlgorithms::begin(const CollectiveSignature& signature, Timeout timeout) {
  current_ = signature;
  timeout_ = timeout;
  deadline_ = Deadline::after(timeout);
}

// All ranks decide alike whether the inputs travel with the heads: they compare what decides it.
void TcpAlgorithms::agree(const Collective& operation) {
  const bool has_shares =
      current_.kind == CollectiveKind::kScatter || current_.kind == CollectiveKind::kReduceScatter;
  const std::size_t input = current_.count * (has_shares ? index(world_size_) : 1);
  is_in_head_ = input * size_of(current_.dtype) <= kHeadBytes;
  Head& own = heads_[index(rank_)];
  own.call = {current_, operation.part_of};
  const bool has_input = current_.kind != CollectiveKind::kScatter || operation.peer == rank_;
  if (is_in_head_ && has_input && current_.count > 0) {
    cpu::copy(operation.input, input_in_head(rank_, operation.input.dtype).slice(0, input));
  }
  Exchange exchange(*this);
  for (const int peer : others_) {
    exchange.receive(peer, bytes_of(heads_[index(peer)]));
    exchange.send(peer, bytes_of(own));
  }
  exchange.finish();
  for (int other = 1; other < world_size_; ++other) {
    const Call& call = heads_[index(other)].call;
    if (call == heads_[0].call) continue;
    throw MismatchError(names_.mismatch(0, heads_[0].call.signature, other, call.signature));
  }
}

void TcpAlgorithms::run_collective(const Collective& operation) {
  switch (operation.kind) {
    case CollectiveKind::kAllReduce:
      return reduce(operation.input, operation.op, std::nullopt);
    case CollectiveKind::kReduce:
      return reduce(operation.input, operation.op, operation.peer);
    case CollectiveKind::kBroadcast:
      return broadcast(operation);
    case CollectiveKind::kAllGather:
      return all_gather(operation);
    case CollectiveKind::kGather:
      return gather(operation);
    case CollectiveKind::kScatter:
      return scatter(operation);
    case CollectiveKind::kAllToAll:
      return all_to_all(operation);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(operation);
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
    case CollectiveKind::kBarrier:  // agreeing on the call was the barrier
      return;
  }
}

// Without a root, every rank keeps the sums.
void TcpAlgorithms::reduce(const Buffer& data, ReduceOp op, std::optional<int> root) {
  const auto keeps = [&](int rank) { return !root || rank == *root; };
  if (is_in_head_) {
    if (keeps(rank_)) sum_heads(0, data, op);
    return;
  }
  const bool in_blocks = uses_blocks(data);
  const std::size_t ranks = in_blocks ? index(world_size_) : 1;  // that share the work
  const std::size_t block = block_of((data.count + ranks - 1) / ranks, data.dtype);
  std::vector<Segment> summed;
  const auto start = [&](std::size_t begin, std::size_t end, std::size_t place) {
    const Buffer all = data.slice(begin, end - begin);
    const auto part_for = [&](int rank) {
      return in_blocks ? part_of(all, rank, world_size_)
                       : all.slice(0, keeps(rank) ? all.count : 0);
    };
    Buffer own_sum = part_for(rank_);
    if (!keeps(rank_)) own_sum.data = term_place(place, rank_);
    Segment segment = start_segment(part_for, own_sum, place);
    if (!in_blocks || !keeps(rank_)) return segment;
    // A rank's block is overwritten by its sum, which comes only after the rank has got the block.
    for (const int peer : others_) segment.sums.receive(peer, part_for(peer));
    return segment;
  };
  run_segments(data.count, block * ranks, start, [&](Segment& segment) {
    sum(segment, op);
    if (!in_blocks) return;
    for (const int peer : others_) {
      if (keeps(peer)) segment.sums.send(peer, segment.sum);
    }
    if (!keeps(rank_)) return segment.sums.finish();  // another segment needs its place
    summed.push_back(std::move(segment));
  });
  for (Segment& segment : summed) segment.sums.finish();
}

void TcpAlgorithms::reduce_scatter(const Collective& operation) {
  const Buffer& output = operation.output;
  if (is_in_head_) return sum_heads(index(rank_) * output.count, output, operation.op);
  const auto start = [&](std::size_t begin, std::size_t end, std::size_t place) {
    const auto part_for = [&](int rank) {
      return operation.input.slice(index(rank) * output.count + begin, end - begin);
    };
    return start_segment(part_for, output.slice(begin, end - begin), place);
  };
  run_segments(output.count, block_of(output.count, output.dtype), start,
               [&](Segment& segment) { sum(segment, operation.op); });
}

// `offset` is where the terms begin in the inputs.
void TcpAlgorithms::sum_heads(std::size_t offset, const Buffer& sum, ReduceOp op) {
  std::vector<Buffer> terms;
  for (int rank = 0; rank < world_size_; ++rank) {
    terms.push_back(input_in_head(rank, sum.dtype).slice(offset, sum.count));
  }
  cpu::reduce_terms(terms, {&sum, 1}, op);
}

// Cuts `count` elements into segments of `size`. Each has a place in the memory for terms, which it
// may use until it is finished.
void TcpAlgorithms::run_segments(std::size_t count, std::size_t size, const Start& start,
                                 const std::function<void(Segment&)>& finish) {
  std::deque<Segment> started;
  const auto finish_first = [&] {
    finish(started.front());
    started.pop_front();
  };
  for (std::size_t begin = 0; begin < count; begin += size) {
    if (started.size() == kSegmentsAhead) finish_first();
    started.push_back(start(begin, std::min(begin + size, count), begin / size % kSegmentsAhead));
  }
  while (!started.empty()) finish_first();
}

// Sends each peer the part that it sums, and receives the terms of this rank's part.
TcpAlgorithms::Segment TcpAlgorithms::start_segment(const std::function<Buffer(int)>& part_for,
                                                    const Buffer& sum, std::size_t place) {
  Segment segment{sum, std::vector<Buffer>(index(world_size_), part_for(rank_)), Exchange(*this),
                  Exchange(*this)};
  for (const int peer : others_) {
    Buffer& term = segment.terms[index(peer)];
    term.data = term_place(place, peer);
    segment.inputs.receive(peer, term);
    segment.inputs.send(peer, part_for(peer));
  }
  return segment;
}

void TcpAlgorithms::sum(Segment& segment, ReduceOp op) {
  segment.inputs.finish();
  if (segment.sum.count > 0) cpu::reduce_terms(segment.terms, {&segment.sum, 1}, op);
}

std::size_t TcpAlgorithms::block_of(std::size_t count, DType dtype) {
  const std::size_t limit_bytes =
      std::clamp(kSegmentBytes / index(world_size_), kLeastBlockBytes, kMostBlockBytes);
  const std::size_t block = std::min(count, limit_bytes / size_of(dtype));
  const std::size_t needed_bytes = host_aligned(block * size_of(dtype));
  if (needed_bytes > term_bytes_) {
    terms_memory_ = {};
    terms_memory_ = allocate_host(kSegmentsAhead * index(world_size_) * needed_bytes);
    term_bytes_ = needed_bytes;
  }
  return block;
}

void* TcpAlgorithms::term_place(std::size_t place, int rank) const {
  const std::size_t number = place * index(world_size_) + index(rank);
  return static_cast<std::byte*>(terms_memory_.data()) + number * term_bytes_;
}

void TcpAlgorithms::broadcast(const Collective& operation) {
  if (!is_in_head_ && uses_blocks(operation.input)) return broadcast_blocks(operation);
  Exchange exchange(*this);
  if (rank_ == operation.peer) {
    for (const int peer : others_) exchange.send_input(peer, operation.input);
  } else {
    exchange.receive_input(operation.peer, 0, operation.input);
  }
  exchange.finish();
}

void TcpAlgorithms::broadcast_blocks(const Collective& operation) {
  const int root = operation.peer;
  const auto block = [&](int rank) { return part_of(operation.input, rank, world_size_); };
  const Buffer own = block(rank_);
  Exchange from_root(*this);
  Exchange to_all(*this);
  if (rank_ == root) {
    for (const int peer : others_) {
      from_root.send(peer, block(peer));
      to_all.send(peer, own);
    }
  } else {
    from_root.receive(root, own);
    for (const int peer : others_) to_all.receive(peer, block(peer));
    from_root.finish();
    for (const int peer : others_) {
      if (peer != root) to_all.send(peer, own);
    }
  }
  from_root.finish();
  to_all.finish();
}

void TcpAlgorithms::all_gather(const Collective& operation) {
  const Buffer& input = operation.input;
  const auto share = [&](int rank) {
    return operation.output.slice(index(rank) * input.count, input.count);
  };
  Exchange exchange(*this);
  for (const int peer : others_) {
    exchange.receive_input(peer, 0, share(peer));
    exchange.send_input(peer, input);
  }
  copy_own(input, share(rank_));
  exchange.finish();
}

void TcpAlgorithms::gather(const Collective& operation) {
  const Buffer& input = operation.input;
  const auto share = [&](int rank) {
    return operation.output.slice(index(rank) * input.count, input.count);
  };
  Exchange exchange(*this);
  if (rank_ == operation.peer) {
    for (const int peer : others_) exchange.receive_input(peer, 0, share(peer));
    copy_own(input, share(rank_));
  } else {
    exchange.send_input(operation.peer, input);
  }
  exchange.finish();
}

void TcpAlgorithms::scatter(const Collective& operation) {
  const Buffer& output = operation.output;
  const auto share = [&](int rank) {
    return operation.input.slice(index(rank) * output.count, output.count);
  };
  Exchange exchange(*this);
  if (rank_ == operation.peer) {
    for (const int peer : others_) exchange.send_input(peer, share(peer));
    copy_own(share(rank_), output);
  } else {
    exchange.receive_input(operation.peer, index(rank_) * output.count, output);
  }
  exchange.finish();
}

void TcpAlgorithms::all_to_all(const Collective& operation) {
  const std::size_t count = operation.input.count / index(world_size_);
  const auto share = [&](const Buffer& whole, int rank) {
    return whole.slice(index(rank) * count, count);
  };
  Exchange exchange(*this);
  for (const int peer : others_) {
    exchange.receive_input(peer, index(rank_) * count, share(operation.output, peer));
    exchange.send_input(peer, share(operation.input, peer));
  }
  cpu::copy(share(operation.input, rank_), share(operation.output, rank_));
  exchange.finish();
}

// Both begin with a signature: the head of a collective, and the first message of a send.
std::string TcpAlgorithms::explain(const TcpWire::Unexpected& message) const {
  static_assert(offsetof(Head, call) == 0 && offsetof(Call, signature) == 0);
  CollectiveSignature other;
  if (message.bytes().size() < sizeof(other)) return message.what();
  std::memcpy(&other, message.bytes().data(), sizeof(other));
  if (message.peer() < rank_) return names_.mismatch(message.peer(), other, rank_, current_);
  return names_.mismatch(rank_, current_, message.peer(), other);
}

bool TcpAlgorithms::uses_blocks(const Buffer& data) const {
  return world_size_ > 2 && data.size_bytes() >= kBlocksFromBytes;
}

Buffer TcpAlgorithms::input_in_head(int rank, DType dtype) {
  return {heads_[index(rank)].input, kHeadBytes / size_of(dtype), dtype, kCpuDevice};
}

}  // namespace ddp
