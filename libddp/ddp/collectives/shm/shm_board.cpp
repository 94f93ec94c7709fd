// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_board.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ddp/base/error.h"

namespace ddp::shm {

// The post replaces the one kPosts before it.
bool Board::can_post() {
  const std::uint64_t before = posted();
  return before < kPosts || have_all_finished(before + 1 - kPosts);
}

// Reading the others' counters takes as long as all the rest, so it is done as rarely as possible.
bool Board::have_all_finished(std::uint64_t goal) {
  if (finished_by_all_.load(std::memory_order_relaxed) >= goal) return true;
  std::uint64_t least = self_.control(0).finished.load();
  for (int rank = 1; rank < self_.world_size(); ++rank) {
    least = std::min(least, self_.control(rank).finished.load());
  }
  finished_by_all_.store(least, std::memory_order_relaxed);
  return least >= goal;
}

void Board::wait_for_room(const CollectiveSignature& signature) {
  self_.begin_call(signature);
  const std::uint64_t number = signature.sequence;
  const std::uint64_t goal = number - std::min(number, kPosts);
  self_.wait_until([&] { return have_all_finished(goal); },
                   [&](int rank) { return self_.control(rank).finished.load() < goal; });
}

void Board::post_small(const CollectiveSignature& signature, std::span<const std::byte> elements) {
  Post& mine = own_post(signature.sequence);
  mine.signature = signature;
  if (!elements.empty()) std::memcpy(mine.elements, elements.data(), elements.size());
  announce(signature.sequence);
}

void Board::post(const CollectiveSignature& signature, const Region& operand) {
  Post& mine = own_post(signature.sequence);
  mine.signature = signature;
  mine.operand = operand;
  mine.taken.store(0, std::memory_order_relaxed);
  if (self_.rank() == 0) {
    Progress& progress = self_.segment().progress(signature.sequence);
    progress.done.store(0, std::memory_order_relaxed);
    progress.began.store(0, std::memory_order_relaxed);
  }
  announce(signature.sequence);
}

void Board::announce(std::uint64_t number) {
  own().posted.store(number);
  self_.ring_all();
}

bool Board::have_all_posted(std::uint64_t number) const {
  for (int rank = 0; rank < self_.world_size(); ++rank) {
    if (self_.control(rank).posted.load() < number) return false;
  }
  return true;
}

void Board::begin(std::uint64_t number) {
  running_ = number;
  self_.begin_call(own_post(number).signature);
  own().running.store(number, std::memory_order_release);
  self_.wait_until([&] { return have_all_posted(number); },
                   [&](int rank) { return self_.control(rank).posted.load() < number; });
  const int other = differing_rank(number);
  if (other == 0) return;
  const CollectiveSignature& first = self_.segment().post(0, number).signature;
  const CollectiveSignature& theirs = self_.segment().post(other, number).signature;
  std::rethrow_exception(
      self_.fail({Cause::kMismatch, "[shm] " + self_.names().mismatch(0, first, other, theirs)}));
}

bool Board::try_begin(std::uint64_t number) {
  if (!self_.comes_soon([&] { return have_all_posted(number); })) return false;
  if (self_.is_broken() || differing_rank(number) != 0) return false;
  running_ = number;
  return true;
}

int Board::differing_rank(std::uint64_t number) const {
  const CollectiveSignature& first = self_.segment().post(0, number).signature;
  for (int other = 1; other < self_.world_size(); ++other) {
    if (self_.segment().post(other, number).signature != first) return other;
  }
  return 0;
}

void Board::end() {
  own().running.store(0, std::memory_order_relaxed);
  own().finished.store(running_);
  self_.ring_all();
}

void Board::bring(const Region& copy) {
  own_post(running_).brought = copy;
  own().brought.store(running_);
  self_.ring_all();
}

void Board::wait_for_guests() {
  const auto is_missing = [this](int rank) {
    return self_.segment().post(rank, running_).operand.block == 0 &&
           self_.control(rank).brought.load() < running_;
  };
  const auto are_all_here = [&] {
    for (int rank = 0; rank < self_.world_size(); ++rank) {
      if (is_missing(rank)) return false;
    }
    return true;
  };
  self_.wait_until(are_all_here, is_missing);
}

bool Board::is_running(int rank) const {
  return self_.control(rank).running.load(std::memory_order_acquire) == running_;
}

}  // namespace ddp::shm
