// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/time.h"
#include "ddp/store/store.h"
#include "launcher/nodes/node_life.h"

namespace ddp::launcher {

// Node 0's view of who is there. It closes the meeting when all are, and live: a launcher that was
// killed while it waited must first be replaced.
class Gathering {
 public:
  Gathering(Store& store, int count);

  // Writes kMetKey if all are there.
  void close_if_complete();
  // "; node 1 (gpu-b) shows no sign of life"; empty if all of them live.
  [[nodiscard]] std::string silent_nodes() const;

 private:
  void look();

  Store& store_;
  std::vector<std::string> keys_;
  std::vector<NodeLife> lives_;  // by rank
  Deadline next_look_ = Deadline::after(Timeout(0));
};

}  // namespace ddp::launcher
