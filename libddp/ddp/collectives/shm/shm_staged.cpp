// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_staged.h"

#include <algorithm>

#include "ddp/base/even_part.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::shm {
namespace {

// One run of a collective over this rank's slots.
class Runner {
 public:
  Runner(Member& self, const Collective& operation, std::span<Buffer> terms)
      : self_(self),
        operation_(operation),
        terms_(terms),
        rank_(self.rank()),
        world_size_(self.world_size()),
        ranks_(static_cast<std::size_t>(self.world_size())),
        dtype_(signature_of(operation, 0).dtype),
        chunk_(kSlotBytes / size_of(dtype_)) {}

  void broadcast();
  void all_gather(bool everywhere);
  void scatter();
  void all_to_all();
  void all_reduce(bool everywhere);
  void reduce_scatter();

 private:
  [[nodiscard]] Buffer half(int rank, std::uint32_t index) const {
    return {self_.segment().slot(rank, index), chunk_, dtype_, kCpuDevice};
  }
  // Elements [0, n) of a rank's current half.
  [[nodiscard]] Buffer slot(int rank, std::size_t n) const { return half(rank, half_).slice(0, n); }
  // The part of n elements that belongs to a rank.
  [[nodiscard]] EvenPart share_of(std::size_t n, int rank) const {
    return even_part(n, static_cast<std::size_t>(rank), ranks_);
  }
  [[nodiscard]] bool is_root() const { return rank_ == operation_.peer; }
  void next_half() { half_ ^= 1U; }
  // Copies elements [begin, begin + n) of each rank's share of the input into our slot, one share
  // after the other.
  void stage_shares(std::size_t share, std::size_t begin, std::size_t n) const;

  // For a chunk of n elements: the share of `target` as `source` staged it, and the share that
  // `source` has reduced.
  [[nodiscard]] Buffer staged(int source, int target, std::size_t n) const;
  [[nodiscard]] Buffer handed_out(int source, std::size_t n) const;

  // target = op over term_of(rank) of all ranks, in rank order.
  template <class TermOf>
  void reduce(const TermOf& term_of, const Buffer& target) const;

  Member& self_;
  const Collective& operation_;
  std::span<Buffer> terms_;
  int rank_;
  int world_size_;
  std::size_t ranks_;
  DType dtype_;
  std::size_t chunk_;  // elements that a slot holds
  std::uint32_t half_ = 0;
};

void Runner::stage_shares(std::size_t share, std::size_t begin, std::size_t n) const {
  for (std::size_t target = 0; target < ranks_; ++target) {
    cpu::copy(operation_.input.slice(target * share + begin, n),
              slot(rank_, chunk_).slice(target * n, n));
  }
}

void Runner::broadcast() {
  const Buffer& data = operation_.input;
  for (std::size_t begin = 0; begin < data.count; begin += chunk_) {
    const std::size_t n = std::min(chunk_, data.count - begin);
    if (is_root()) cpu::copy(data.slice(begin, n), slot(rank_, n));
    self_.barrier();
    if (!is_root()) cpu::copy(slot(operation_.peer, n), data.slice(begin, n));
    next_half();
  }
}

void Runner::all_gather(bool everywhere) {
  const std::size_t count = operation_.input.count;
  for (std::size_t begin = 0; begin < count; begin += chunk_) {
    const std::size_t n = std::min(chunk_, count - begin);
    cpu::copy(operation_.input.slice(begin, n), slot(rank_, n));
    self_.barrier();
    for (int source = 0; (everywhere || is_root()) && source < world_size_; ++source) {
      const std::size_t target = static_cast<std::size_t>(source) * count + begin;
      cpu::copy(slot(source, n), operation_.output.slice(target, n));
    }
    next_half();
  }
}

void Runner::scatter() {
  const std::size_t count = operation_.output.count;
  const std::size_t chunk = chunk_ / ranks_;
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t n = std::min(chunk, count - begin);
    if (is_root()) stage_shares(count, begin, n);
    self_.barrier();
    cpu::copy(slot(operation_.peer, chunk_).slice(static_cast<std::size_t>(rank_) * n, n),
              operation_.output.slice(begin, n));
    next_half();
  }
}

void Runner::all_to_all() {
  const std::size_t count = operation_.input.count / ranks_;
  const std::size_t chunk = chunk_ / ranks_;
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t n = std::min(chunk, count - begin);
    stage_shares(count, begin, n);
    self_.barrier();
    for (int source = 0; source < world_size_; ++source) {
      cpu::copy(slot(source, chunk_).slice(static_cast<std::size_t>(rank_) * n, n),
                operation_.output.slice(static_cast<std::size_t>(source) * count + begin, n));
    }
    next_half();
  }
}

// Each rank reduces its own share of a chunk, which it reads in place. It stages the others' shares
// in half 0, and publishes its reduced share in half 1. A rank that stages again has met those that
// read half 0, and a rank that reduces again has met those that read half 1.
void Runner::all_reduce(bool everywhere) {
  const std::size_t chunk = chunk_ / std::max<std::size_t>(1, ranks_ - 1) * ranks_;
  for (std::size_t begin = 0; begin < operation_.input.count; begin += chunk) {
    const std::size_t n = std::min(chunk, operation_.input.count - begin);
    const auto part = [&](int rank) {
      const EvenPart share = share_of(n, rank);
      return operation_.input.slice(begin + share.begin, share.count);
    };
    for (int other = 0; other < world_size_; ++other) {
      if (other != rank_) cpu::copy(part(other), staged(rank_, other, n));
    }
    self_.barrier();
    reduce([&](int source) { return source == rank_ ? part(rank_) : staged(source, rank_, n); },
           handed_out(rank_, n));
    self_.barrier();
    for (int source = 0; (everywhere || is_root()) && source < world_size_; ++source) {
      cpu::copy(handed_out(source, n), part(source));
    }
  }
}

// The shares of all ranks but `source`, one after the other.
Buffer Runner::staged(int source, int target, std::size_t n) const {
  const EvenPart share = share_of(n, target);
  const std::size_t left_out = target > source ? share_of(n, source).count : 0;
  return half(source, 0).slice(share.begin - left_out, share.count);
}

Buffer Runner::handed_out(int source, std::size_t n) const {
  return half(source, 1).slice(0, share_of(n, source).count);
}

void Runner::reduce_scatter() {
  const std::size_t count = operation_.output.count;
  const std::size_t chunk = chunk_ / ranks_;
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t n = std::min(chunk, count - begin);
    stage_shares(count, begin, n);
    self_.barrier();
    reduce(
        [&](int source) {
          return slot(source, chunk_).slice(static_cast<std::size_t>(rank_) * n, n);
        },
        operation_.output.slice(begin, n));
    next_half();
  }
}

template <class TermOf>
void Runner::reduce(const TermOf& term_of, const Buffer& target) const {
  for (int source = 0; source < world_size_; ++source) {
    terms_[static_cast<std::size_t>(source)] = term_of(source);
  }
  cpu::reduce_terms(terms_, {&target, 1}, operation_.op, average_factor(operation_, terms_.size()));
}

}  // namespace

// Other ranks may still be in the previous collective and read what we staged for it.
void run_staged(Member& self, const Collective& operation, std::span<Buffer> terms) {
  self.barrier();
  Runner runner(self, operation, terms);
  switch (operation.kind) {
    case CollectiveKind::kAllReduce:
      return runner.all_reduce(true);
    case CollectiveKind::kReduce:
      return runner.all_reduce(false);
    case CollectiveKind::kBroadcast:
      return runner.broadcast();
    case CollectiveKind::kAllGather:
      return runner.all_gather(true);
    case CollectiveKind::kGather:
      return runner.all_gather(false);
    case CollectiveKind::kScatter:
      return runner.scatter();
    case CollectiveKind::kReduceScatter:
      return runner.reduce_scatter();
    case CollectiveKind::kAllToAll:
      return runner.all_to_all();
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
    case CollectiveKind::kBarrier:
      return;
  }
}

}  // namespace ddp::shm
