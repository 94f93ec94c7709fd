// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_small.h"

#include <algorithm>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/shm/shm_in_place.h"

namespace ddp::shm {
namespace {

// The most bytes that one rank may have to read from all posts together.
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

// Above this size, sharing the work is worth the second meeting that it takes; see
// bench_all_reduce.
constexpr std::size_t kNotInPlaceBytes = std::size_t{2} << 10;

// The size of the larger operand that exists on all ranks.
std::size_t operand_bytes(const Collective& operation, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  switch (operation.kind) {
    case CollectiveKind::kScatter:
      return operation.output.size_bytes() * ranks;
    case CollectiveKind::kBarrier:
      return 0;
    default:
      return operation.input.size_bytes();
  }
}

}  // namespace

std::size_t small_bytes(CollectiveKind kind, int world_size) {
  const std::size_t most = works_in_place(kind) ? kNotInPlaceBytes : kPostBytes;
  return std::min(most, kReadBytes / static_cast<std::size_t>(world_size));
}

bool is_small(const Collective& operation, int world_size) {
  return operand_bytes(operation, world_size) <= small_bytes(operation.kind, world_size);
}

std::span<const std::byte> elements_to_post(const Collective& operation, int rank) {
  if (!contributes(operation, rank)) return {};
  const Buffer& input = operation.input;
  return {static_cast<const std::byte*>(input.data), input.size_bytes()};
}

SmallRunner::SmallRunner(const Member& self)
    : self_(self), terms_(static_cast<std::size_t>(self.world_size())) {}

void SmallRunner::run(const Collective& operation, std::uint64_t number) {
  const auto rank = static_cast<std::size_t>(self_.rank());
  const bool is_root = self_.rank() == operation.peer;
  const Buffer& output = operation.output;
  switch (operation.kind) {
    case CollectiveKind::kAllReduce:
      return reduce(operation, number, 0);
    case CollectiveKind::kReduce:
      return is_root ? reduce(operation, number, 0) : void();
    case CollectiveKind::kReduceScatter:
      return reduce(operation, number, rank * output.count);
    case CollectiveKind::kBroadcast:
      return is_root ? void() : cpu::copy(posted(operation.peer, number, 0, output), output);
    case CollectiveKind::kScatter:
      return cpu::copy(posted(operation.peer, number, rank * output.count, output), output);
    case CollectiveKind::kAllGather:
      return take_from_all(operation, number, 0);
    case CollectiveKind::kGather:
      return is_root ? take_from_all(operation, number, 0) : void();
    case CollectiveKind::kAllToAll:
      return take_from_all(operation, number, rank * (output.count / terms_.size()));
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
    case CollectiveKind::kBarrier:
      return;
  }
}

// Reduces the elements from `begin` on of each operand, as many as the output has. It reads this
// rank's own operand from the caller's memory, where it is in the caches, rather than from the
// post; see bench_all_reduce.
void SmallRunner::reduce(const Collective& operation, std::uint64_t number, std::size_t begin) {
  const Buffer& output = operation.output;
  for (int source = 0; source < self_.world_size(); ++source) {
    terms_[static_cast<std::size_t>(source)] = source == self_.rank()
                                                   ? operation.input.slice(begin, output.count)
                                                   : posted(source, number, begin, output);
  }
  cpu::reduce_terms(terms_, {&output, 1}, operation.op, average_factor(operation, terms_.size()));
}

// Takes an equal part of the output from each rank.
void SmallRunner::take_from_all(const Collective& operation, std::uint64_t number,
                                std::size_t begin) const {
  const std::size_t n = operation.output.count / terms_.size();
  for (int source = 0; source < self_.world_size(); ++source) {
    const Buffer part = operation.output.slice(static_cast<std::size_t>(source) * n, n);
    cpu::copy(posted(source, number, begin, part), part);
  }
}

Buffer SmallRunner::posted(int source, std::uint64_t number, std::size_t begin,
                           const Buffer& like) const {
  std::byte* elements = self_.segment().post(source, number).elements;
  return Buffer{elements, 0, like.dtype, kCpuDevice}.slice(begin, like.count);
}

}  // namespace ddp::shm
