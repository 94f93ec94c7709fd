// SPDX-License-Identifier: MIT
#include "ddp/collectives/tcp/tcp_algorithms.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/even_part.h"
#include "ddp/base/object_bytes.h"
#include "ddp/collectives/tcp/tcp_exchange.h"

namespace ddp {
namespace {

// From this size on, blocks save more time than the second exchange takes.
constexpr std::size_t kBlocksFromBytes = std::size_t{16} << 10;

// A rank's own share of an input may already lie at its place in the output.
void copy_own(const Buffer& source, const Buffer& target) {
  if (source.data != target.data) cpu::copy(source, target);
}

}  // namespace

TcpAlgorithms::TcpAlgorithms(TcpWire& wire, int rank, int world_size, GroupNames names)
    : wire_(wire),
      rank_(rank),
      world_size_(world_size),
      names_(std::move(names)),
      heads_(index(world_size_)),
      transfers_(world_size_) {
  for (int other = 0; other < world_size_; ++other) {
    if (other != rank_) others_.push_back(other);
  }
}

Buffer TcpAlgorithms::part_of(const Buffer& whole, int rank, int ranks) {
  const EvenPart part = even_part(whole.count, index(rank), index(ranks));
  return whole.slice(part.begin, part.count);
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
    begin(signature_of(operation, ++collectives_), operation.context.timeout);
    agree(operation);
    if (current_.count > 0) run_collective(operation);
  }
}

void TcpAlgorithms::run_transfers(std::span<const Collective> batch) {
  std::vector<TcpTransfer> transfers;
  for (const Collective& operation : batch) {
    if (!is_transfer(operation.kind)) continue;
    transfers.emplace_back(wire_, rank_, names_, operation, transfers_.next(operation));
  }
  for (TcpTransfer& transfer : transfers) {
    begin(transfer.signature(), transfer.timeout());
    transfer.start();
  }
  finish(transfers);
}

// In the order in which messages end: a peer may wait for another transfer of this rank before it
// goes on with the one that this rank waits for.
void TcpAlgorithms::finish(std::vector<TcpTransfer>& transfers) {
  std::vector<TcpTransfer*> running;
  for (TcpTransfer& transfer : transfers) running.push_back(&transfer);
  for (;;) {
    std::erase_if(running, [this](TcpTransfer* each) {
      begin(each->signature(), each->timeout());
      each->advance();
      return each->awaited() == nullptr;
    });
    if (running.empty()) return;
    await_one_of(running);
  }
}

// At most until the first of their deadlines.
void TcpAlgorithms::await_one_of(std::span<TcpTransfer* const> running) {
  const TcpTransfer& first_to_end = **std::ranges::min_element(
      running, {}, [](const TcpTransfer* each) { return each->deadline().time_point(); });
  begin(first_to_end.signature(), first_to_end.timeout());
  std::vector<const TcpWire::Message*> messages;
  for (const TcpTransfer* each : running) messages.push_back(each->awaited());
  try {
    wire_.wait_for_any(messages, first_to_end.deadline());
  } catch (const TcpWire::Lost& lost) {
    const auto cut_off = std::ranges::find(running, lost.peer(), &TcpTransfer::peer);
    if (cut_off != running.end()) begin((*cut_off)->signature(), (*cut_off)->timeout());
    throw;
  }
}

void TcpAlgorithms::begin(const CollectiveSignature& signature, Timeout timeout) {
  current_ = signature;
  timeout_ = timeout;
  deadline_ = wire_.clock().after(timeout);
}

// All ranks decide alike whether the inputs travel with the heads: they compare what decides it.
void TcpAlgorithms::agree(const Collective& operation) {
  const bool has_shares =
      current_.kind == CollectiveKind::kScatter || current_.kind == CollectiveKind::kReduceScatter;
  const std::size_t input = current_.count * (has_shares ? index(world_size_) : 1);
  is_in_head_ = input * size_of(current_.dtype) <= kHeadBytes;
  Head& own = heads_[index(rank_)];
  own.call = {current_, operation.context.part_of};
  if (is_in_head_ && contributes(operation, rank_) && current_.count > 0) {
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
      return reduce(operation, std::nullopt);
    case CollectiveKind::kReduce:
      return reduce(operation, operation.peer);
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
  return names_.mismatch(rank_, current_, message.peer(), other);
}

bool TcpAlgorithms::uses_blocks(const Buffer& data) const {
  return world_size_ > 2 && data.size_bytes() >= kBlocksFromBytes;
}

Buffer TcpAlgorithms::input_in_head(int rank, DType dtype) {
  return {heads_[index(rank)].input, kHeadBytes / size_of(dtype), dtype, kCpuDevice};
}

}  // namespace ddp
