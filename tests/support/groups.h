// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ddp/collectives/gloo_process_group.h"
#include "ddp/collectives/init.h"
#include "ddp/store/hash_store.h"
#include "support/run_ranks.h"

namespace ddp::test {

// Those for CPU ranks that this build has.
inline std::vector<Backend> backends() {
  std::vector<Backend> all = {Backend::kShm};
  if (gloo_is_compiled_in()) all.push_back(Backend::kGloo);
  return all;
}

// Runs fn(group) on world_size ranks, each a thread with its own group over one in-process store.
// Nobody watches for hangs: allocations are counted here and there.
inline void run_groups(Backend backend, int world_size,
                       const std::function<void(ProcessGroup&)>& fn,
                       Timeout timeout = std::chrono::seconds(60)) {
  const auto store = std::make_shared<HashStore>();
  run_ranks(world_size, [&](int rank) {
    const auto group = init_process_group({.backend = backend,
                                           .device = DeviceChoice::kCpu,
                                           .rank = rank,
                                           .world_size = world_size,
                                           .store = store,
                                           .start_timeout = timeout,
                                           .timeout = timeout,
                                           .hang_watch = {.period = Timeout(0)}});
    fn(*group);
  });
}

}  // namespace ddp::test
