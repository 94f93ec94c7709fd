// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_in_place.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/round_up.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::shm {
namespace {

// Small enough that ranks end at about the same time, large enough that taking a chunk costs
// little.
constexpr std::size_t kMaxChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kMinChunkBytes = std::size_t{2} << 10;
constexpr std::size_t kChunksPerRank = 2;

std::size_t chunk_elements(const Buffer& operand, std::size_t ranks) {
  const std::size_t bytes =
      std::clamp(operand.size_bytes() / (kChunksPerRank * ranks), kMinChunkBytes, kMaxChunkBytes);
  return bytes / kHostAlignment * kHostAlignment / size_of(operand.dtype);
}

// For a rank whose own operand the others cannot reach, while other ranks' operands can be reached:
// a copy of the operand goes to the heap, and the result is copied back. Otherwise ranks that have
// already gone on to compute would have to come back and copy their parts.
class Guest {
 public:
  Guest(Board& board, Heap& heap, const Collective& operation)
      : own_(operation.input), memory_(heap.allocate(own_.size_bytes())), copy_(own_) {
    copy_.data = memory_.data();
    cpu::copy(own_, copy_);
    board.bring(heap.find(copy_));
  }
  void take_home() const { cpu::copy(copy_, own_); }

 private:
  Buffer own_;
  Allocation memory_;
  Buffer copy_;
};

Clock::rep now() { return Clock::now().time_since_epoch().count(); }

void note_first(std::atomic<Clock::rep>& when) {
  Clock::rep none = 0;
  when.compare_exchange_strong(none, now(), std::memory_order_relaxed);
}

Clock::time_point time_in(const std::atomic<Clock::rep>& when) {
  return Clock::time_point(Clock::duration(when.load(std::memory_order_relaxed)));
}

bool lies_in_heap(const Member& self, int rank, std::uint64_t number) {
  return self.segment().post(rank, number).operand.block != 0;
}

}  // namespace

bool works_in_place(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kBroadcast;
}

bool is_posted_in_place(const Member& self, std::uint64_t number) {
  for (int rank = 0; rank < self.world_size(); ++rank) {
    if (lies_in_heap(self, rank, number)) return true;
  }
  return false;
}

InPlaceRunner::InPlaceRunner(Member& self, Board& board, Heap& heap)
    : self_(self),
      board_(board),
      heap_(heap),
      stage_(heap),
      operands_(static_cast<std::size_t>(self.world_size())) {
  terms_.reserve(operands_.size());
  targets_.reserve(operands_.size());
}

Region InPlaceRunner::offer(const Collective& operation, std::uint64_t number) {
  const Region own = heap_.find(operation.input);
  if (own.block != 0) return own;
  const std::optional<Buffer> copy = stage_.take(number, operation.input);
  if (!copy) return {};
  if (contributes(operation, self_.rank())) cpu::copy(operation.input, *copy);
  return heap_.find(*copy);
}

Interval InPlaceRunner::run(const Collective& operation, std::uint64_t number) {
  std::optional<Guest> guest;
  if (!lies_in_heap(self_, self_.rank(), number)) guest.emplace(board_, heap_, operation);
  try {
    board_.wait_for_guests();
    work(operation, number);
  } catch (...) {
    if (guest) abandon();
    throw;
  }
  const bool is_wanted = receives(operation, self_.rank());
  if (guest && is_wanted) guest->take_home();
  if (const auto copy = stage_.find(number)) {
    if (is_wanted) cpu::copy(*copy, operation.input);
    stage_.give_back(number);
  }
  const Progress& progress = self_.segment().progress(number);
  return {time_in(progress.began), time_in(progress.ended)};
}

void InPlaceRunner::find_operands(const Collective& operation, std::uint64_t number) {
  for (int rank = 0; rank < self_.world_size(); ++rank) {
    const Post& post = self_.segment().post(rank, number);
    Buffer& operand = operands_[static_cast<std::size_t>(rank)];
    operand = operation.input;
    operand.data = reach(rank, post.operand.block != 0 ? post.operand : post.brought);
  }
}

void InPlaceRunner::leave() {
  if (stage_.is_in_use()) abandon();
}

// Maps in the first step all memory that this rank may have to read in later ones, even if the
// others have left it nothing to do.
void InPlaceRunner::look_at_operands(std::uint64_t number) {
  try {
    for (int rank = 0; rank < self_.world_size(); ++rank) {
      const Post& post = self_.segment().post(rank, number);
      if (post.operand.block != 0) (void)heap_.at(rank, post.operand);
    }
  } catch (const Error&) {
    // The rank has ended and its memory is gone. It has done its part, so the memory is not needed.
  }
}

// Our copy is about to go; a rank that still reads it must not take what follows for our operand.
void InPlaceRunner::abandon() {
  (void)self_.fail({Cause::kPeer, "[shm] " + self_.names().rank(self_.rank()) +
                                      " left a collective that reads its memory"});
}

std::byte* InPlaceRunner::reach(int rank, const Region& region) {
  try {
    return heap_.at(rank, region);
  } catch (const Error& error) {
    self_.expect_alive(rank);
    const std::string who = "[shm] " + self_.names().rank(self_.rank());
    std::rethrow_exception(
        self_.fail({Cause::kPeer, who + " cannot reach the memory of " + self_.names().rank(rank) +
                                      ", which may have died: " + error.what()}));
  }
}

// A rank that finds nothing left to do does not look for operands, which may be gone with their
// ranks.
void InPlaceRunner::work(const Collective& operation, std::uint64_t number) {
  Progress& progress = self_.segment().progress(number);
  const std::size_t ranks = operands_.size();
  const std::size_t chunk = chunk_elements(operation.input, ranks);
  const std::size_t chunks = divide_up(operation.input.count, chunk);
  const std::size_t part = divide_up(chunks, ranks);
  std::size_t done = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t owner = (static_cast<std::size_t>(self_.rank()) + i) % ranks;
    const std::size_t first = std::min(chunks, owner * part);
    const std::size_t end = std::min(chunks, first + part);
    auto& taken = self_.segment().post(static_cast<int>(owner), number).taken;
    for (std::size_t next; (next = first + taken.fetch_add(1)) < end; ++done) {
      if (done == 0) {
        note_first(progress.began);
        find_operands(operation, number);
      }
      work_on(operation, next * chunk, std::min(chunk, operation.input.count - next * chunk));
    }
  }
  if (done == 0) look_at_operands(number);
  if (done > 0) {
    progress.ended.store(now(), std::memory_order_relaxed);
    if (progress.done.fetch_add(done) + done == chunks) self_.ring_all();
  }
  self_.wait_until([&] { return progress.done.load() == chunks; },
                   [this](int rank) { return board_.is_running(rank); });
}

void InPlaceRunner::work_on(const Collective& operation, std::size_t begin, std::size_t n) {
  terms_.clear();
  targets_.clear();
  for (int rank = 0; rank < self_.world_size(); ++rank) {
    const Buffer chunk = operands_[static_cast<std::size_t>(rank)].slice(begin, n);
    terms_.push_back(chunk);
    if (receives(operation, rank)) targets_.push_back(chunk);
  }
  if (operation.kind != CollectiveKind::kBroadcast) {
    return cpu::reduce_terms(terms_, targets_, operation.op,
                             average_factor(operation, terms_.size()));
  }
  const Buffer& source = terms_[static_cast<std::size_t>(operation.peer)];
  for (const Buffer& target : targets_) cpu::copy(source, target);
}

}  // namespace ddp::shm
