// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/collectives/init.h"

namespace ddp {

// What a rank says of itself when ranks meet.
struct Hello {
  int rank = 0;
  int world_size = 1;                // as this rank was told
  std::string build = {};            // of libddp
  std::string host = {};             // equal for ranks that can share memory
  std::string host_name = {};        // for messages
  std::string gpu = {};              // bus id of its CUDA device; empty on the CPU
  std::string nccl = {};             // NCCL's version; empty on the CPU
  std::string nccl_path = {};        // and where it is, for messages
  Backend backend = Backend::kAuto;  // what it asked for
  int pid = 0;
  bool shares_gpu = false;         // started with --oversubscribe
  std::string alone_because = {};  // why it can share memory with no rank; empty if it can
};

// parse_hello throws MismatchError if the text is not what serialize() of this version writes.
[[nodiscard]] std::string serialize(const Hello& hello);
[[nodiscard]] Hello parse_hello(const std::string& text);

// This process on `device`; rank and world size are left to the caller.
[[nodiscard]] Hello describe_self(Device device, Backend backend, bool shares_gpu);

// "rank 2 (node7, pid 123)".
[[nodiscard]] std::string to_string(const Hello& hello);

// By rank: equal for ranks that can share memory, and no others.
[[nodiscard]] std::vector<int> hosts_of(const std::vector<Hello>& hellos);

}  // namespace ddp
