// SPDX-License-Identifier: MIT
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>

namespace ddp::test {

enum class Verdict { kGood, kBad, kImpossible };

// For tests that change a whole process, such as its namespaces: runs fn in a forked child, and
// fails unless it returns kGood. A machine on which it is impossible skips the test.
inline void check_in_child(const std::function<Verdict()>& fn) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(static_cast<int>(fn()));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == static_cast<int>(Verdict::kImpossible)) {
    WARN("SKIPPED: it is not possible here");
  } else {
    CHECK(WEXITSTATUS(status) == static_cast<int>(Verdict::kGood));
  }
}

}  // namespace ddp::test
