// SPDX-License-Identifier: MIT
//
// How ranks agree before there is a group. Each rank describes itself under "hello/<rank>"; rank 0
// reads them all, decides, and publishes the plan (or the error that everybody throws) under
// "plan". That is world_size reads in all, not world_size squared.
#pragma once

#include <string>
#include <vector>

#include "ddp/collectives/init.h"

namespace ddp {

// What a rank says of itself.
struct Hello {
  std::string build = {};            // of libddp
  std::string host = {};             // equal for ranks that can share memory
  std::string host_name = {};        // for messages
  std::string gpu = {};              // bus id of its CUDA device; empty on the CPU
  std::string nccl = {};             // NCCL's version; empty on the CPU
  Backend backend = Backend::kAuto;  // what it asked for
  int pid = 0;
  bool shares_gpu = false;         // started with --oversubscribe
  std::string alone_because = {};  // why it can share memory with no rank; empty if it can
};

[[nodiscard]] std::string serialize(const Hello& hello);
[[nodiscard]] Hello parse_hello(const std::string& text);

// This process on `device`.
[[nodiscard]] Hello describe_self(Device device, Backend backend, bool shares_gpu);

// By rank: equal for ranks that can share memory, and no others.
[[nodiscard]] std::vector<int> hosts_of(const std::vector<Hello>& hellos);

// The backend for these ranks. Throws EnvironmentError or MismatchError naming the ranks if they
// cannot work together.
[[nodiscard]] Backend choose_backend(const std::vector<Hello>& hellos);

struct Plan {
  Backend backend = Backend::kAuto;
  std::vector<int> hosts = {};  // hosts_of all ranks
};

// Exchanges hellos over the store; returns what all ranks do.
[[nodiscard]] Plan agree_on_plan(Store& store, int rank, int world_size, const Hello& self,
                                 Timeout timeout);

}  // namespace ddp
