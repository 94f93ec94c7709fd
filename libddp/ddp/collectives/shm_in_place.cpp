// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm_in_place.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::shm {
namespace {

// Small enough that ranks end at about the same time, large enough that taking one costs little.
constexpr std::size_t kMaxChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kMinChunkBytes = std::size_t{16} << 10;
constexpr std::size_t kChunksPerRank = 4;

std::size_t chunk_elements(const Buffer& operand, int world_size) {
  const std::size_t chunks = kChunksPerRank * static_cast<std::size_t>(world_size);
  const std::size_t bytes =
      std::clamp(operand.size_bytes() / chunks, kMinChunkBytes, kMaxChunkBytes);
  return bytes / kHostAlignment * kHostAlignment / size_of(operand.dtype);
}

bool has_result(const Collective& operation, int rank) {
  switch (operation.kind) {
    case CollectiveKind::kReduce:
      return rank == operation.peer;
    case CollectiveKind::kBroadcast:
      return rank != operation.peer;
    default:
      return true;
  }
}

// Where all ranks have the operand of one collective.
class Operands {
 public:
  Operands(const Context& context, Heap& heap, const Collective& operation, std::uint64_t number)
      : operation_(operation), world_size_(context.world_size()) {
    for (int rank = 0; rank < world_size_; ++rank) {
      const Post& post = context.segment().post(rank, number);
      Buffer operand = operation.input;
      operand.data = heap.at(rank, post.operand.block != 0 ? post.operand : post.brought);
      by_rank_.push_back(operand);
    }
  }

  void work_on(std::size_t begin, std::size_t n) const {
    std::vector<Buffer> terms;
    std::vector<Buffer> targets;
    for (int rank = 0; rank < world_size_; ++rank) {
      const Buffer chunk = by_rank_[static_cast<std::size_t>(rank)].slice(begin, n);
      terms.push_back(chunk);
      if (has_result(operation_, rank)) targets.push_back(chunk);
    }
    if (operation_.kind != CollectiveKind::kBroadcast) {
      return cpu::reduce_terms(terms, targets, operation_.op);
    }
    const Buffer& source = terms[static_cast<std::size_t>(operation_.peer)];
    for (const Buffer& target : targets) cpu::copy(source, target);
  }

 private:
  const Collective& operation_;
  int world_size_;
  std::vector<Buffer> by_rank_;
};

void work(Context& context, const Operands& operands, const Collective& operation,
          std::uint64_t number) {
  Claims& claims = context.segment().claims(number);
  const std::size_t count = operation.input.count;
  const std::size_t chunk = chunk_elements(operation.input, context.world_size());
  const std::size_t chunks = (count + chunk - 1) / chunk;
  for (;;) {
    const std::size_t taken = claims.taken.fetch_add(1);
    if (taken >= chunks) break;
    const std::size_t begin = taken * chunk;
    operands.work_on(begin, std::min(chunk, count - begin));
    if (claims.done.fetch_add(1) + 1 == chunks) context.ring_all();
  }
  context.wait_until([&] { return claims.done.load() == chunks; },
                     [&](int rank) { return context.is_running(rank); });
}

// What a rank does whose own operand is out of reach while others' are not: a copy of it goes to
// the heap and comes back.
class Guest {
 public:
  Guest(Context& context, Heap& heap, const Collective& operation)
      : own_(operation.input), memory_(heap.allocate(own_.size_bytes())), copy_(own_) {
    copy_.data = memory_.data();
    cpu::copy(own_, copy_);
    context.bring(heap.find(copy_));
  }
  void take_home() const { cpu::copy(copy_, own_); }

 private:
  Buffer own_;
  Allocation memory_;
  Buffer copy_;
};

bool lies_in_heap(const Context& context, int rank, std::uint64_t number) {
  return context.segment().post(rank, number).operand.block != 0;
}

}  // namespace

bool works_in_place(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kBroadcast;
}

bool is_posted_in_place(const Context& context, std::uint64_t number) {
  for (int rank = 0; rank < context.world_size(); ++rank) {
    if (lies_in_heap(context, rank, number)) return true;
  }
  return false;
}

void run_in_place(Context& context, Heap& heap, const Collective& operation, std::uint64_t number) {
  std::optional<Guest> guest;
  if (!lies_in_heap(context, context.rank(), number)) guest.emplace(context, heap, operation);
  context.wait_for_guests();
  work(context, Operands(context, heap, operation, number), operation, number);
  if (guest && has_result(operation, context.rank())) guest->take_home();
}

}  // namespace ddp::shm
