// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/collectives/backend.h"
#include "ddp/collectives/peers/rank_identity.h"

namespace ddp {

// What a rank publishes about itself when ranks meet.
struct Hello {
  RankIdentity who = {};
  std::string build = {};          // identifies the build of libddp
  std::string gpu = {};            // bus id of its CUDA device; empty on the CPU
  std::string nccl = {};           // NCCL's version; empty on the CPU
  std::string nccl_path = {};      // the file NCCL was loaded from, for messages
  std::string alone_because = {};  // why it can share memory with no rank; else empty
  // The following come from the rank's environment and options.
  int world_size = 1;
  Backend backend = Backend::kAuto;
  bool shares_gpu = false;  // DDP_OVERSUBSCRIBE is set
};

// parse_hello throws MismatchError if the text is not what serialize() of this version writes.
[[nodiscard]] std::string serialize(const Hello& hello);
[[nodiscard]] Hello parse_hello(const std::string& text);

// This process, as a rank on `device`, without the members that come from environment and options.
[[nodiscard]] Hello describe_self(int rank, Device device);

// A number by rank, equal for two ranks exactly if they can share memory.
[[nodiscard]] std::vector<int> hosts_of(const std::vector<Hello>& hellos);

}  // namespace ddp
