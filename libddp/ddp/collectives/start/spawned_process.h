// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ddp/base/error_record.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/worker_env.h"

namespace ddp {

// The place of a process among the others.
struct SpawnedRank {
  WorkerEnv env;  // complete except for the store's port
  int omp_threads = 1;
};

// How a process ended: its wait status, and what fn threw.
struct SpawnedEnding {
  int status = 0;
  std::optional<ErrorRecord> error = std::nullopt;

  [[nodiscard]] bool is_failure() const { return status != 0; }
};

// "threw: …", "exited with code 3" or "was killed by SIGSEGV".
[[nodiscard]] std::string to_string(const SpawnedEnding& ending);

// One rank of spawn(), a child of this process. It waits for the store's port before it runs fn: it
// is forked before the store's thread starts. The two talk through a pair of sockets:
//
//   to the child    := port                      uint16
//   to the parent   := [caused_by_peer message]  one byte, text; if fn has thrown
class SpawnedProcess {
 public:
  using Function = std::function<void(int rank)>;

  // `siblings` are those started before, which the child forgets. Throws SystemError.
  static SpawnedProcess start(const SpawnedRank& rank, const Function& fn,
                              std::span<SpawnedProcess> siblings);

  SpawnedProcess(SpawnedProcess&& other) noexcept;
  SpawnedProcess& operator=(SpawnedProcess&&) = delete;
  // Kills what still runs.
  ~SpawnedProcess();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::optional<SpawnedEnding>& ending() const { return ending_; }

  // Becomes readable when the process ends.
  [[nodiscard]] int end_fd() const { return end_.get(); }

  void tell_port(std::uint16_t port) const;
  void send_signal(int signal_number) const;
  // After end_fd() has become readable.
  void reap();

 private:
  SpawnedProcess() = default;
  void forget() noexcept;
  [[nodiscard]] std::optional<ErrorRecord> received_error() const;

  int rank_ = 0;
  pid_t pid_ = 0;
  FileDescriptor channel_;
  FileDescriptor end_;
  std::optional<SpawnedEnding> ending_;
};

}  // namespace ddp
