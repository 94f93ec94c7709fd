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
// What a rank sums in one segment of an all_reduce: large enough to pay for its messages, small
// enough for segments to overlap.
constexpr std::size_t kSegmentBlockBytes = std::size_t{1} << 20;
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

// A part of an all_reduce: the elements that this rank sums, and the messages of that part.
struct TcpAlgorithms::Segment {
  Buffer sum;                 // the place of one of the terms
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
  for (TcpTransfer& transfer : transfers) {
    current_ = transfer.signature();
    transfer.accept();
  }
  for (TcpTransfer& transfer : transfers) {
    current_ = transfer.signature();
    transfer.finish();
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
      return all_reduce(operation.input, operation.op);
    case CollectiveKind::kReduce:
      return reduce(operation);
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

void TcpAlgorithms::all_reduce(const Buffer& data, ReduceOp op) {
  if (is_in_head_) {
    std::vector<Buffer> terms;
    for (int rank = 0; rank < world_size_; ++rank) {
      terms.push_back(input_in_head(rank, data.dtype).slice(0, data.count));
    }
    return cpu::reduce_terms(terms, {&data, 1}, op);
  }
  const bool in_blocks = uses_blocks(data);
  const std::size_t block = kSegmentBlockBytes / size_of(data.dtype);
  const std::size_t size = in_blocks ? block * index(world_size_) : block;
  std::deque<Segment> started;
  std::vector<Segment> summed;
  const auto sum_first = [&] {
    sum(started.front(), op, in_blocks);
    summed.push_back(std::move(started.front()));
    started.pop_front();
  };
  for (std::size_t begin = 0; begin < data.count; begin += size) {
    if (started.size() == kSegmentsAhead) sum_first();
    const Buffer part = data.slice(begin, std::min(size, data.count - begin));
    started.push_back(start_segment(part, begin / size % kSegmentsAhead, in_blocks));
  }
  while (!started.empty()) sum_first();
  for (Segment& segment : summed) segment.sums.finish();
}

// `place` is the part of the memory for terms that the segment may use.
TcpAlgorithms::Segment TcpAlgorithms::start_segment(const Buffer& data, std::size_t place,
                                                    bool in_blocks) {
  const std::size_t ranks = index(world_size_);
  if (terms_memory_.data() == nullptr) {
    terms_memory_ = allocate_host(kSegmentsAhead * ranks * kSegmentBlockBytes);
  }
  const auto part_for = [&](int rank) {
    return in_blocks ? part_of(data, rank, world_size_) : data;
  };
  const Buffer own = part_for(rank_);
  Segment segment{own, std::vector<Buffer>(ranks, own), Exchange(*this), Exchange(*this)};
  for (const int peer : others_) {
    Buffer& term = segment.terms[index(peer)];
    term.data = static_cast<std::byte*>(terms_memory_.data()) +
                (place * ranks + index(peer)) * kSegmentBlockBytes;
    segment.inputs.receive(peer, term);
    segment.inputs.send(peer, part_for(peer));
    // A rank's block is overwritten by its sum, which comes only after the rank has got the block.
    if (in_blocks) segment.sums.receive(peer, part_for(peer));
  }
  return segment;
}

void TcpAlgorithms::sum(Segment& segment, ReduceOp op, bool in_blocks) {
  segment.inputs.finish();
  if (segment.sum.count > 0) cpu::reduce_terms(segment.terms, {&segment.sum, 1}, op);
  if (!in_blocks) return;
  for (const int peer : others_) segment.sums.send(peer, segment.sum);
}

void TcpAlgorithms::reduce(const Collective& operation) {
  if (rank_ == operation.peer) return all_reduce(operation.input, operation.op);
  if (is_in_head_) return;
  const Allocation scratch = allocate_host(operation.input.size_bytes());
  Buffer copy = operation.input;
  copy.data = scratch.data();
  cpu::copy(operation.input, copy);
  all_reduce(copy, operation.op);
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

void TcpAlgorithms::reduce_scatter(const Collective& operation) {
  const Buffer& sum = operation.output;
  const Allocation scratch = allocate_host(operation.input.size_bytes());
  Buffer terms = operation.input;
  terms.data = scratch.data();
  Collective exchange = operation;
  exchange.output = terms;
  all_to_all(exchange);
  std::vector<Buffer> all;
  for (int rank = 0; rank < world_size_; ++rank) {
    all.push_back(terms.slice(index(rank) * sum.count, sum.count));
  }
  cpu::reduce_terms(all, {&sum, 1}, operation.op);
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
