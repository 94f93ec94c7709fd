// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/shm/shm_member.h"
#include "ddp/collectives/shm/shm_segment.h"

namespace ddp::shm {

// The state of the group's collectives, which are numbered 1, 2, ...: that a rank has called one
// (it posts it), that all have called the same one (it begins), that a rank has finished it (it
// ends).
//
// One thread at a time posts; one thread, which may be another, makes all other calls.
class Board {
 public:
  explicit Board(Member& self) : self_(self) {}

  // Collectives are posted in order, each when can_post() is true. After that, the others do not
  // need this rank for a small operand (`elements` are the bytes that they need), or for an operand
  // in shared memory.
  [[nodiscard]] bool can_post();
  void post_small(const CollectiveSignature& signature, std::span<const std::byte> elements);
  void post(const CollectiveSignature& signature, const Region& operand);
  [[nodiscard]] std::uint64_t posted() const { return own().posted.load(); }

  // Waits until this rank can post the collective with this signature.
  void wait_for_room(const CollectiveSignature& signature);
  // Begins a collective that this rank has posted: waits until all ranks have posted it, and throws
  // MismatchError on every rank if they differ.
  void begin(std::uint64_t number);
  // Begins it only if all ranks have posted it, or do so within a moment. Otherwise, or if the
  // ranks differ or the group is broken, does nothing and returns false.
  [[nodiscard]] bool try_begin(std::uint64_t number);
  void end();

  // If the others cannot reach a rank's operand of the running collective, that rank brings a copy
  // to shared memory, and all ranks wait for it.
  void bring(const Region& copy);
  void wait_for_guests();
  // True while `rank` runs the same collective as this rank.
  [[nodiscard]] bool is_running(int rank) const;

 private:
  [[nodiscard]] RankControl& own() const { return self_.control(self_.rank()); }
  [[nodiscard]] Post& own_post(std::uint64_t number) const {
    return self_.segment().post(self_.rank(), number);
  }
  void announce(std::uint64_t number);
  [[nodiscard]] bool have_all_posted(std::uint64_t number) const;
  [[nodiscard]] bool have_all_finished(std::uint64_t goal);
  // The first rank whose post differs from rank 0's; 0 if none does.
  [[nodiscard]] int differing_rank(std::uint64_t number) const;

  Member& self_;
  std::uint64_t running_ = 0;                      // the last one begun
  std::atomic<std::uint64_t> finished_by_all_{0};  // lower bound
};

}  // namespace ddp::shm
