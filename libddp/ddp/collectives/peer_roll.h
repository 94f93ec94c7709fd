// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

// Tells who is missing when all that is known is that a connection broke: each rank of a group says
// in the store who it is, and when it leaves.
class PeerRoll {
 public:
  explicit PeerRoll(const GroupConfig& config);

  // This rank leaves the group. Never throws: whoever cannot read it knows less, that is all.
  void leave() noexcept;

  // "rank 1 (node7, pid 123, cpu) left the group", or "died" if its process has ended; empty if all
  // are there, as far as this rank can see. Asks for half a second, since a process that dies loses
  // its connections first, but not any more once `is_settled`.
  [[nodiscard]] std::string missing(const std::function<bool()>& is_settled = [] {
    return false;
  }) const noexcept;

  enum class Fate { kUnknown, kLeft, kDied };
  // Of one rank, as far as this one can see now.
  [[nodiscard]] Fate fate_of(int rank) const noexcept;

  // "rank 1 (node7, pid 123, cpu)", one of several with "or" between them; what is not known of a
  // rank is left out.
  [[nodiscard]] std::string names(const std::vector<int>& ranks) const noexcept;

 private:
  [[nodiscard]] std::string look() const;
  [[nodiscard]] Fate look_at(int rank) const;
  [[nodiscard]] std::string name(int rank) const;

  std::shared_ptr<Store> store_;
  int rank_;
  int world_size_;
};

}  // namespace ddp
