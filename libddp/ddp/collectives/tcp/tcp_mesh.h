// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/net/socket.h"
#include "ddp/base/time.h"
#include "ddp/collectives/group_names.h"
#include "ddp/store/store.h"

namespace ddp {

// The member of a group that is being connected.
struct MeshMember {
  int rank = 0;
  int world_size = 1;
  std::string address;  // this host's, on the interface to use
};

struct MeshDeadlines {
  Deadline for_calls;
  // To be called by others. If it is later, a rank that cannot call another one can say so first,
  // with the address.
  Deadline for_callers;
};

// What a rank that connects waits for; another thread may read it meanwhile.
class MeshWait {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  // "rank 0 does not answer at 10.0.0.1:41234"; empty: nothing.
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// Connects this rank with every other one, and returns the connections by rank; this rank's own
// entry is a socket that is not open. All ranks of the group call it, with a store that only this
// group uses. Connections of strangers are closed: a peer must know a random number that only the
// store tells. A process may have 1024 descriptors by default, so the limit is raised.
//
// Throws TimeoutError after the deadline, what the store throws, SystemError if this rank cannot
// listen, and NetworkError naming the rank and its address if a peer cannot be reached.
[[nodiscard]] std::vector<Socket> connect_mesh(Store& store, const MeshMember& own,
                                               const GroupNames& names,
                                               const MeshDeadlines& deadlines, MeshWait& wait);

}  // namespace ddp
