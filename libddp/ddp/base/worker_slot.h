// SPDX-License-Identifier: MIT
//
// What each worker of a host tells its launcher while it runs, in memory that the launcher owns and
// can still read after the worker has been killed. DDP_WORKER_SLOTS names the file. It has one slot
// of 64 bytes for each local rank: WorkerSlot::Values.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ddp {

// How far a worker has come in init_process_group.
enum class StartPhase : std::uint64_t {
  kNotThere = 0,  // init_process_group was not called, or the program does not use libddp
  kWaiting = 1,   // waits for the other ranks
  kMet = 2
};

// A signal that asked a worker to stop, and that its SignalGuard noted.
struct StopRequest {
  int signal_number = 0;
  pid_t sender = 0;  // as the worker sees it; 0 if it cannot, from another PID namespace
};

// The slot of one worker. Copies write to the same slot.
class WorkerSlot {
 public:
  static constexpr std::size_t kBytes = 64;

  struct Values {
    std::optional<std::int64_t> step = {};  // the last that has begun: 1, 2, …
    StartPhase start_phase = StartPhase::kNotThere;
    std::optional<StopRequest> stop_request = {};  // the first
  };

  WorkerSlot() = default;  // nothing is written; also if the file cannot be mapped
  WorkerSlot(const std::string& path, int local_rank);

  // The slot of LOCAL_RANK in DDP_WORKER_SLOTS; without these variables, one to which nothing is
  // written.
  static WorkerSlot from_environment();

  // For the launcher: what the worker has written into the open file.
  [[nodiscard]] static Values read(int file, int local_rank);

  void set_step(std::uint64_t step) const;
  void set_start_phase(StartPhase phase) const;
  // Does nothing if there was an earlier request. May be called in a signal handler.
  void note(StopRequest request) const noexcept;

 private:
  struct Memory;

  std::shared_ptr<Memory> memory_;
};

}  // namespace ddp
