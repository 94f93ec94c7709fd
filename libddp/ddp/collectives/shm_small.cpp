// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm_small.h"

#include <algorithm>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::shm {
namespace {

// What one rank may have to read of all posts together.
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

// The larger one of the operands that matter on all ranks.
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

bool has_something_to_post(const Collective& operation, int rank) {
  switch (operation.kind) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kScatter:
      return rank == operation.peer;
    case CollectiveKind::kBarrier:
      return false;
    default:
      return true;
  }
}

// One collective as one rank completes it.
class SmallRun {
 public:
  SmallRun(const Context& context, const Collective& operation, std::uint64_t number)
      : context_(context), operation_(operation), number_(number), rank_(context.rank()) {}

  void reduce(std::size_t begin, const Buffer& target) const {
    std::vector<Buffer> terms;
    for (int source = 0; source < context_.world_size(); ++source) {
      terms.push_back(posted(source, begin, target));
    }
    cpu::reduce_terms(terms, {&target, 1}, operation_.op);
  }

  // Elements of the source's operand from `begin` on.
  void take(int source, std::size_t begin, const Buffer& target) const {
    cpu::copy(posted(source, begin, target), target);
  }

  // Equal parts of the output, one from each rank.
  void take_from_all(std::size_t begin) const {
    const Buffer& output = operation_.output;
    const std::size_t n = output.count / static_cast<std::size_t>(context_.world_size());
    for (int source = 0; source < context_.world_size(); ++source) {
      take(source, begin, output.slice(static_cast<std::size_t>(source) * n, n));
    }
  }

  [[nodiscard]] bool is_root() const { return rank_ == operation_.peer; }
  // Where this rank's share of n elements begins.
  [[nodiscard]] std::size_t own_share(std::size_t n) const {
    return static_cast<std::size_t>(rank_) * n;
  }

 private:
  [[nodiscard]] Buffer posted(int source, std::size_t begin, const Buffer& like) const {
    Post& post = context_.segment().post(source, number_);
    const Buffer all{post.elements, kPostBytes / size_of(like.dtype), like.dtype, kCpuDevice};
    return all.slice(begin, like.count);
  }

  const Context& context_;
  const Collective& operation_;
  std::uint64_t number_;
  int rank_;
};

}  // namespace

bool is_small(const Collective& operation, int world_size) {
  const std::size_t limit = std::min(kPostBytes, kReadBytes / static_cast<std::size_t>(world_size));
  return operand_bytes(operation, world_size) <= limit;
}

std::span<const std::byte> elements_to_post(const Collective& operation, int rank) {
  if (!has_something_to_post(operation, rank)) return {};
  const Buffer& input = operation.input;
  return {static_cast<const std::byte*>(input.data), input.size_bytes()};
}

void run_small(const Context& context, const Collective& operation, std::uint64_t number) {
  const SmallRun run(context, operation, number);
  const Buffer& output = operation.output;
  switch (operation.kind) {
    case CollectiveKind::kAllReduce:
      return run.reduce(0, output);
    case CollectiveKind::kReduce:
      return run.is_root() ? run.reduce(0, output) : void();
    case CollectiveKind::kReduceScatter:
      return run.reduce(run.own_share(output.count), output);
    case CollectiveKind::kBroadcast:
      return run.is_root() ? void() : run.take(operation.peer, 0, output);
    case CollectiveKind::kScatter:
      return run.take(operation.peer, run.own_share(output.count), output);
    case CollectiveKind::kAllGather:
      return run.take_from_all(0);
    case CollectiveKind::kGather:
      return run.is_root() ? run.take_from_all(0) : void();
    case CollectiveKind::kAllToAll:
      return run.take_from_all(
          run.own_share(output.count / static_cast<std::size_t>(context.world_size())));
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
    case CollectiveKind::kBarrier:
      return;
  }
}

}  // namespace ddp::shm
