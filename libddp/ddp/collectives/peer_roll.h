// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

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
  // its connections first.
  [[nodiscard]] std::string missing() const noexcept;

 private:
  [[nodiscard]] std::string look() const;

  std::shared_ptr<Store> store_;
  int rank_;
  int world_size_;
};

}  // namespace ddp
