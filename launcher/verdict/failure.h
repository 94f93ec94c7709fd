// SPDX-License-Identifier: MIT
//
// How a job ended, as one agent knows it and tells the other agents.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ddp/base/error_record.h"

namespace ddp::launcher {

// The kernel killed a process because memory was exhausted.
struct OutOfMemory {
  std::int64_t resident_bytes = 0;            // largest resident size of the process
  std::optional<std::int64_t> limit_bytes{};  // of its control group, or of the machine

  friend bool operator==(const OutOfMemory&, const OutOfMemory&) = default;
};

// The end of one worker.
struct Ending {
  // When it ended, relative to this launcher stopping the other workers.
  enum class When {
    kFirst,   // dying when the first failure was seen, or earlier
    kBefore,  // before any worker was signalled
    kAfter
  };

  int rank = 0;
  pid_t pid = 0;
  int status = 0;  // as waitpid(2) gives it
  When when = When::kFirst;
  bool was_requested = false;           // it ended because the job was to stop
  std::optional<ErrorRecord> record{};  // its error record
  // When it wrote the record, which may be long before its end. Not sent to other nodes.
  std::optional<std::filesystem::file_time_type> recorded_at{};
  std::optional<OutOfMemory> out_of_memory{};
  std::string hint{};  // what its signal may mean on this host

  [[nodiscard]] bool is_failure() const { return status != 0 && !was_requested; }
  // True if its record says that another rank is the cause.
  [[nodiscard]] bool is_consequence() const { return record && record->caused_by_peer; }
  // True if it may be a consequence, for all that its record says.
  [[nodiscard]] bool may_be_consequence() const {
    return record && (record->caused_by_peer || !record->tells_cause);
  }
};

// A worker that ended with code 0 before the failure; its peers may be waiting for it.
struct Finished {
  int rank = 0;
  std::optional<std::int64_t> step{};  // the last step that it is known to have begun

  friend bool operator==(const Finished&, const Finished&) = default;
};

// The first worker of a job that failed, and the consequences.
struct WorkerFailure {
  Ending first;
  int alike = 0;                          // other ranks that failed so, by themselves
  int others = 0;                         // ranks that stopped because of it
  std::chrono::duration<double> after{};  // the start of the workers
  std::string host{};                     // where it happened
  std::optional<std::int64_t> step{};     // the last step that it is known to have begun
  std::vector<Finished> finished{};       // before it, on its node; if a peer is the cause
  bool when_asked_to_stop = false;        // while a signal was stopping the job
  std::vector<std::string> frames{};      // where it crashed, innermost first
  std::vector<std::string> last_lines{};  // of its stderr
  bool lines_are_in_view = false;         // on this agent's console; not sent to other nodes
  std::string log_file{};                 // with its complete stderr, if there is one
};

// A failure of a whole node: its launcher was signalled or cannot go on, or the node is lost.
struct NodeFailure {
  std::string sentence;
  int exit_code = EXIT_FAILURE;
};

using Failure = std::variant<WorkerFailure, NodeFailure>;

// One line, which failure_from_json parses.
[[nodiscard]] std::string to_json(const Failure& failure);
// Returns nothing if the text does not come from to_json: anybody who can reach the store may have
// written it.
[[nodiscard]] std::optional<Failure> failure_from_json(std::string_view text);

}  // namespace ddp::launcher
