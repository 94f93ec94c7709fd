// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/hierarchical/hierarchical_process_group.h"
#include "ddp/collectives/init.h"
#include "ddp/store/hash_store.h"
#include "support/run_ranks.h"

namespace ddp::test {

// However short the timeout of a test's operations, its ranks may take this long to start.
inline constexpr Timeout kStartTimeout = std::chrono::seconds(60);

// The backends for CPU ranks.
inline std::vector<Backend> backends() { return {Backend::kShm, Backend::kTcp, Backend::kShmTcp}; }

// Hosts by rank: every second rank is assumed to be on another host.
inline std::vector<int> two_hosts(int world_size) {
  std::vector<int> hosts;
  for (int rank = 0; rank < world_size; ++rank) hosts.push_back(rank % 2);
  return hosts;
}

// Runs fn(group) on ranks that are assumed to be on these hosts. Each rank is a thread with its own
// group.
inline void run_on_hosts(const std::vector<int>& hosts,
                         const std::function<void(ProcessGroup&)>& fn,
                         Timeout timeout = std::chrono::seconds(60)) {
  const auto store = std::make_shared<HashStore>();
  const int world_size = static_cast<int>(hosts.size());
  run_ranks(world_size, [&](int rank) {
    const auto group = make_hierarchical_process_group({.store = store,
                                                        .rank = rank,
                                                        .world_size = world_size,
                                                        .timeout = timeout,
                                                        .start_timeout = kStartTimeout},
                                                       hosts, "127.0.0.1");
    fn(*group);
  });
}

// Runs fn(group) on world_size ranks. Each rank is a thread with its own group, over one in-process
// store. There is no hang watch unless one is asked for, since some tests count allocations;
// shm+tcp has none.
inline void run_groups(Backend backend, int world_size,
                       const std::function<void(ProcessGroup&)>& fn,
                       Timeout timeout = std::chrono::seconds(60),
                       const HangWatchOptions& hang_watch = {.period = Timeout(0)}) {
  if (backend == Backend::kShmTcp && world_size > 1) {
    return run_on_hosts(two_hosts(world_size), fn, timeout);
  }
  const auto store = std::make_shared<HashStore>();
  run_ranks(world_size, [&](int rank) {
    const auto group = init_process_group({.backend = backend,
                                           .device = DeviceChoice::kCpu,
                                           .rank = rank,
                                           .world_size = world_size,
                                           .store = store,
                                           .ranks_are_threads = true,
                                           .start_timeout = std::max(timeout, kStartTimeout),
                                           .timeout = timeout,
                                           .hang_watch = hang_watch});
    fn(*group);
  });
}

// Does this with each of the backends, for what does not depend on the backend. An error says which
// one it was.
inline void run_on_all_backends(int world_size, const std::function<void(ProcessGroup&)>& fn) {
  for (const Backend backend : backends()) {
    try {
      run_groups(backend, world_size, fn);
    } catch (const std::exception& error) {
      throw std::runtime_error("over " + std::string(to_string(backend)) + ": " + error.what());
    }
  }
}

}  // namespace ddp::test
