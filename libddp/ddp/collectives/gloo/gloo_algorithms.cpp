// SPDX-License-Identifier: MIT
#include "ddp/collectives/gloo/gloo_algorithms.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/scatter.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <algorithm>
#include <string>

#include "ddp/base/allocation.h"
#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {
namespace {

// Gloo's collectives use the slot prefixes 0x01 to 0x08.
constexpr std::uint8_t kMessagePrefix = 0x20;

char* bytes_of(const Buffer& buffer) { return static_cast<char*>(buffer.data); }

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// What the ranks of a collective compare.
struct Call {
  CollectiveSignature signature;
  std::uint64_t part_of = 0;

  friend bool operator==(const Call&, const Call&) = default;
};

}  // namespace

// One send or recv: a signature of fixed size, then the payload, which the receiver accepts only
// after it has compared signatures.
class GlooAlgorithms::Message {
 public:
  Message(gloo::Context& context, const GroupNames& names, const Collective& operation,
          std::uint64_t sequence)
      : names_(names),
        rank_(context.rank),
        peer_(operation.peer),
        sends_(operation.kind == CollectiveKind::kSend),
        has_payload_(operation.input.count > 0),
        deadline_(Deadline::after(operation.timeout)),
        signature_(signature_of(operation, sequence)),
        wire_signature_(signature_),
        head_(context.createUnboundBuffer(&wire_signature_, sizeof(wire_signature_))),
        payload_(context.createUnboundBuffer(operation.input.data, operation.input.size_bytes())),
        head_slot_(slot(2 * sequence)),
        payload_slot_(slot(2 * sequence + 1)) {}

  [[nodiscard]] const CollectiveSignature& signature() const { return signature_; }
  [[nodiscard]] int peer() const { return peer_; }

  void start() {
    if (!sends_) return head_->recv(peer_, head_slot_);
    head_->send(peer_, head_slot_);
    if (has_payload_) payload_->send(peer_, payload_slot_);
  }

  void accept() {
    if (sends_) return;
    head_->waitRecv(remaining());
    CollectiveSignature expected = signature_;
    expected.kind = CollectiveKind::kSend;
    if (!(wire_signature_ == expected)) {
      throw MismatchError("send and recv" + names_.of_group() + " differ: " + names_.rank(peer_) +
                          " called " + to_string(wire_signature_) + " to " + names_.rank(rank_) +
                          ", which called " + to_string(signature_));
    }
    if (has_payload_) payload_->recv(peer_, payload_slot_);
  }

  void finish() {
    if (sends_) head_->waitSend(remaining());
    if (!has_payload_) return;
    if (sends_) {
      payload_->waitSend(remaining());
    } else {
      payload_->waitRecv(remaining());
    }
  }

 private:
  // The messages of a batch share one timeout.
  [[nodiscard]] Timeout remaining() const { return std::max(deadline_.remaining(), Timeout(1)); }

  static std::uint64_t slot(std::uint64_t number) {
    return gloo::Slot::build(kMessagePrefix, static_cast<std::uint32_t>(number));
  }

  const GroupNames& names_;
  int rank_;
  int peer_;
  bool sends_;
  bool has_payload_;
  Deadline deadline_;
  CollectiveSignature signature_;
  CollectiveSignature wire_signature_;
  std::unique_ptr<gloo::transport::UnboundBuffer> head_;
  std::unique_ptr<gloo::transport::UnboundBuffer> payload_;
  std::uint64_t head_slot_;
  std::uint64_t payload_slot_;
};

GlooAlgorithms::GlooAlgorithms(std::shared_ptr<gloo::Context> context, GroupNames names)
    : context_(std::move(context)),
      names_(std::move(names)),
      sent_(index(context_->size)),
      received_(index(context_->size)) {}

void GlooAlgorithms::run(std::span<const Collective> batch) {
  run_transfers(batch);
  for (const Collective& operation : batch) {
    if (is_transfer(operation.kind)) continue;
    begin(signature_of(operation, ++collectives_), operation.timeout);
    agree(operation.part_of);
    if (current_.count > 0) run_collective(operation);
  }
}

void GlooAlgorithms::run_transfers(std::span<const Collective> batch) {
  std::vector<std::unique_ptr<Message>> messages;
  for (const Collective& operation : batch) {
    if (!is_transfer(operation.kind)) continue;
    auto& counts = operation.kind == CollectiveKind::kSend ? sent_ : received_;
    const std::uint64_t sequence = ++counts[index(operation.peer)];
    begin(signature_of(operation, sequence), operation.timeout);
    messages.push_back(std::make_unique<Message>(*context_, names_, operation, sequence));
  }
  for (const auto& message : messages) message->start();
  for (const auto& message : messages) {
    await(*message);
    message->accept();
  }
  for (const auto& message : messages) {
    await(*message);
    message->finish();
  }
  awaited_peer_.store(-1, std::memory_order_relaxed);
}

void GlooAlgorithms::await(const Message& message) {
  current_ = message.signature();
  awaited_peer_.store(message.peer(), std::memory_order_relaxed);
}

// Gloo's collectives use the context's timeout, so it is set here.
void GlooAlgorithms::begin(const CollectiveSignature& signature, Timeout timeout) {
  current_ = signature;
  begin_ = Clock::now();
  context_->setTimeout(timeout);
}

bool GlooAlgorithms::has_timed_out() const {
  return Clock::now() - begin_ >= context_->getTimeout() * 9 / 10;
}

void GlooAlgorithms::agree(std::uint64_t part_of) {
  std::vector<Call> all(index(context_->size));
  Call own{current_, part_of};
  gloo::AllgatherOptions options(context_);
  options.setInput(reinterpret_cast<char*>(&own), sizeof(own));
  options.setOutput(reinterpret_cast<char*>(all.data()), all.size() * sizeof(own));
  options.setTag(tag_++);
  gloo::allgather(options);
  for (int other = 1; other < context_->size; ++other) {
    if (all[index(other)] == all[0]) continue;
    throw MismatchError(names_.mismatch(0, all[0].signature, other, all[index(other)].signature));
  }
}

void GlooAlgorithms::run_collective(const Collective& operation) {
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
      return all_to_all(operation.input, operation.output);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(operation);
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
    case CollectiveKind::kBarrier:  // agreeing on the call was the barrier
      return;
  }
}

void GlooAlgorithms::all_reduce(const Buffer& data, ReduceOp op) {
  const auto combine = [&](void* target, const void* left, const void* right, std::size_t n) {
    const Buffer sum{target, n, data.dtype, kCpuDevice};
    const Buffer first{const_cast<void*>(left), n, data.dtype, kCpuDevice};
    const Buffer second{const_cast<void*>(right), n, data.dtype, kCpuDevice};
    if (target != left) cpu::copy(first, sum);
    cpu::reduce(second, sum, op);
  };
  gloo::AllreduceOptions options(context_);
  dispatch(data.dtype, [&](auto zero) {
    options.setOutput(static_cast<decltype(zero)*>(data.data), data.count);
  });
  options.setReduceFunction(combine);
  options.setTag(tag_++);
  gloo::allreduce(options);
  if (op == ReduceOp::kAverage) cpu::scale(data, 1.0 / context_->size);
}

void GlooAlgorithms::reduce(const Collective& operation) {
  if (context_->rank == operation.peer) return all_reduce(operation.input, operation.op);
  const Allocation scratch = allocate_host(operation.input.size_bytes());
  Buffer copy = operation.input;
  copy.data = scratch.data();
  cpu::copy(operation.input, copy);
  all_reduce(copy, operation.op);
}

void GlooAlgorithms::broadcast(const Collective& operation) {
  gloo::BroadcastOptions options(context_);
  options.setOutput(bytes_of(operation.input), operation.input.size_bytes());
  options.setRoot(operation.peer);
  options.setTag(tag_++);
  gloo::broadcast(options);
}

void GlooAlgorithms::all_gather(const Collective& operation) {
  gloo::AllgatherOptions options(context_);
  options.setInput(bytes_of(operation.input), operation.input.size_bytes());
  options.setOutput(bytes_of(operation.output), operation.output.size_bytes());
  options.setTag(tag_++);
  gloo::allgather(options);
}

void GlooAlgorithms::gather(const Collective& operation) {
  gloo::GatherOptions options(context_);
  options.setInput(bytes_of(operation.input), operation.input.size_bytes());
  if (context_->rank == operation.peer) {
    options.setOutput(bytes_of(operation.output), operation.output.size_bytes());
  }
  options.setRoot(operation.peer);
  options.setTag(tag_++);
  gloo::gather(options);
}

void GlooAlgorithms::scatter(const Collective& operation) {
  const std::size_t share_bytes = operation.output.size_bytes();
  gloo::ScatterOptions options(context_);
  if (context_->rank == operation.peer) {
    std::vector<char*> shares;
    for (std::size_t r = 0; r < index(context_->size); ++r) {
      shares.push_back(bytes_of(operation.input) + r * share_bytes);
    }
    options.setInputs(shares, share_bytes);
  }
  options.setOutput(bytes_of(operation.output), share_bytes);
  options.setRoot(operation.peer);
  options.setTag(tag_++);
  gloo::scatter(options);
}

void GlooAlgorithms::all_to_all(const Buffer& input, const Buffer& output) {
  gloo::AlltoallOptions options(context_);
  options.setInput(bytes_of(input), input.size_bytes());
  options.setOutput(bytes_of(output), output.size_bytes());
  options.setTag(tag_++);
  gloo::alltoall(options);
}

void GlooAlgorithms::reduce_scatter(const Collective& operation) {
  const Allocation scratch = allocate_host(operation.input.size_bytes());
  Buffer terms = operation.input;
  terms.data = scratch.data();
  all_to_all(operation.input, terms);
  const Buffer& sum = operation.output;
  cpu::copy(terms.slice(0, sum.count), sum);
  for (std::size_t r = 1; r < index(context_->size); ++r) {
    cpu::reduce(terms.slice(r * sum.count, sum.count), sum, operation.op);
  }
  if (operation.op == ReduceOp::kAverage) cpu::scale(sum, 1.0 / context_->size);
}

}  // namespace ddp
