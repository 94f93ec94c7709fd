// SPDX-License-Identifier: MIT
//
// Checks what the workers of a job report when one of them hangs.
#pragma once

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/job.h"

namespace ddp::test {

inline constexpr Timeout kBound{5000};  // the worker's promise is one second

inline std::vector<std::string> warnings_of(Job& job) {
  std::vector<std::string> warnings;
  for (int rank = 0; rank < job.size(); ++rank) {
    for (const std::string& line : lines_of(job[rank].err())) {
      if (line.starts_with("[ddp] warning")) warnings.push_back(line);
    }
  }
  return warnings;
}

// Stops a rank of a job that communicates in an endless loop. The other ranks must warn of it, and
// end when the timeout of three seconds is over.
inline void check_stop_is_told(Job& job, int victim) {
  job.wait_until_ready();
  job[victim].send_signal(SIGSTOP);
  const std::string name = "rank " + std::to_string(victim) + " (";
  for (int rank = 0; rank < job.size(); ++rank) {
    if (rank == victim) continue;
    CHECK(job[rank].wait(Timeout(3000) + kBound) == 3);
    CHECK_THAT(last_line(job[rank].err()), Catch::Contains("timed out after 3000 ms: " + name) &&
                                               Catch::Contains("is stopped (SIGSTOP)"));
  }
  const std::vector<std::string> warnings = warnings_of(job);  // other warnings may come first
  CAPTURE(warnings);
  CHECK(std::any_of(warnings.begin(), warnings.end(), [&](const std::string& warning) {
    return warning.find(name) != std::string::npos &&
           warning.find("is stopped (SIGSTOP)") != std::string::npos;
  }));
}

}  // namespace ddp::test
