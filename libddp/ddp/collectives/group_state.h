// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ddp/base/system/home_process.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/group_names.h"
#include "ddp/store/prefix_store.h"

namespace ddp {

// What every ProcessGroup has, whatever its backend. For the thread that submits, except where said
// otherwise.
struct GroupState {
  explicit GroupState(GroupConfig group_config);

  GroupConfig config;
  PrefixStore user_store;                    // what ProcessGroup::store() gives
  GroupNames names;                          // of its ranks, in messages
  std::shared_ptr<FlightRecorder> recorder;  // the last operations; for any thread
  std::shared_ptr<BreakReport> report;       // what breaks it; for any thread
  std::shared_ptr<FlightRecorder> meetings;  // the submitting thread's waits in the store: meet()
  HomeProcess process;                       // in which the group was made
  std::atomic<std::uint64_t> submitted = 0;  // sequence of the last operation; for any thread
  std::vector<Collective> batch;             // operations of the open batch
  bool is_in_batch = false;
  int fresh_names = 0;       // that fresh_name() has given
  std::uint8_t issuers = 0;  // that new_issuer() has given

  OperationContext context;       // of operations submitted from now on
  const char* solo_in = nullptr;  // see ScopedSolo

  // For the engine: also tells the launcher. See FlightRecorder.
  void begin_step(std::uint64_t step);
  // The last step that has begun, for an ErrorRecord.
  [[nodiscard]] std::optional<std::int64_t> step() const;
};

}  // namespace ddp
