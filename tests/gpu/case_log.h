// SPDX-License-Identifier: MIT
//
// For the source with Catch2's main(). If DDP_TEST_LOG names a folder, the program writes a line
// into PROGRAM.cases there (PROGRAM-RANK-of-WORLD_SIZE.cases under ddp-launch) when a test case
// begins and when it ends, so that after a crash the file shows where it happened:
//
//   line   := result '\t' seconds '\t' name '\n'
//   result := "begun" | "passed" | "failed" | "skipped"     skipped: it said WARN("SKIPPED: why")
#pragma once

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "catch_runner.h"

namespace ddp::test {

class CaseLog : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;

  void testRunStarting(const Catch::TestRunInfo& run) override {
    if (const char* folder = std::getenv("DDP_TEST_LOG")) {
      file_.open(folder + ("/" + std::string(run.name)) + rank_suffix() + ".cases");
    }
  }

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    begin_ = Clock::now();
    is_skipped_ = false;
    name_ = test.name;
    write("begun");
  }

  // assertionEnded() returns bool in Catch2 2 (whether the messages are used up) and void in Catch2
  // 3.
  using Answer = decltype(std::declval<Catch::EventListenerBase&>().assertionEnded(
      std::declval<const Catch::AssertionStats&>()));

  Answer assertionEnded(const Catch::AssertionStats& assertion) override {
    const Catch::AssertionResult& result = assertion.assertionResult;
    const bool is_warning = result.getResultType() == Catch::ResultWas::Warning;
    is_skipped_ |= is_warning && std::string(result.getMessage()).starts_with("SKIPPED");
    return Answer();
  }

  void testCaseEnded(const Catch::TestCaseStats& test) override {
    const char* unless_failed = is_skipped_ ? "skipped" : "passed";
    write(test.totals.assertions.allOk() ? unless_failed : "failed");
  }

 private:
  static std::string rank_suffix() {
    const char* rank = std::getenv("RANK");
    const char* world_size = std::getenv("WORLD_SIZE");
    if (rank == nullptr || world_size == nullptr) return "";
    return "-" + std::string(rank) + "-of-" + world_size;
  }

  using Clock = std::chrono::steady_clock;

  void write(const char* result) {
    const std::chrono::duration<double> seconds = Clock::now() - begin_;
    file_ << result << '\t' << seconds.count() << '\t' << name_ << std::endl;
  }

  std::ofstream file_;
  std::string name_;
  Clock::time_point begin_;
  bool is_skipped_ = false;
};

}  // namespace ddp::test
