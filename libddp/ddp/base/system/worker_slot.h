// SPDX-License-Identifier: MIT
//
// What each worker of a host tells its launcher while it runs, in memory that the launcher owns and
// can still read after the worker has been killed. DDP_WORKER_SLOTS names the file. It has one slot
// of WorkerSlot::kBytes for each local rank: WorkerSlot::Values.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ddp/base/error_record.h"

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
  static constexpr std::size_t kBytes = 1024;

  struct Values {
    std::optional<std::int64_t> step = {};  // the last that has begun: 1, 2, …
    StartPhase start_phase = StartPhase::kNotThere;
    std::optional<StopRequest> stop_request = {};  // the first
    std::optional<ErrorRecord> error = {};         // if it could not be written to its file
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
  // Keeps the beginning of the message, and whether a peer is the cause. Does nothing if there was
  // an earlier one that was not cleared.
  void keep(const ErrorRecord& error) const noexcept;
  void clear_error() const noexcept;
  // Does nothing if there was an earlier request. May be called in a signal handler.
  void note(StopRequest request) const noexcept;

 private:
  struct Memory;

  [[nodiscard]] static std::optional<ErrorRecord> error_in(const Memory& memory);

  std::shared_ptr<Memory> memory_;
};

}  // namespace ddp
