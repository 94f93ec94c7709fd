// SPDX-License-Identifier: MIT
//
// What a hanging job reports, tested with real processes.
#include <signal.h>
#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "support/files.h"
#include "support/hang_checks.h"
#include "support/job.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::Job;
using test::kBound;
using test::last_line;
using test::warnings_of;

namespace {

constexpr Timeout kPatientBound = 25s;  // the promise is ten seconds; a minute would be broken

// The part of the line after the rank's own prefix.
std::string sentence_of(const std::string& line) { return line.substr(line.find("timed out")); }

// The warnings that contain this text.
std::vector<std::string> warnings_about(Job& job, const std::string& text) {
  std::vector<std::string> warnings = warnings_of(job);
  std::erase_if(warnings, [&](const std::string& line) { return line.find(text) == line.npos; });
  return warnings;
}

// This job over each backend, all at the same time, since they mostly wait.
std::map<std::string, Job> over_all_backends(const std::string& mode) {
  std::map<std::string, Job> jobs;
  for (const std::string& backend : test::cpu_backends()) {
    jobs.try_emplace(backend, 3, mode, backend);
  }
  return jobs;
}

// The rank that sees it first breaks the group, so the other may hear it from that one.
void check_leader_is_blamed(Job& job, const std::string& plight) {
  for (const int rank : {1, 2}) CHECK(job[rank].wait(kBound) == 3);
  const std::string errors[] = {last_line(job[1].err()), last_line(job[2].err())};
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("rank 0 (") && Catch::Contains(plight));
    CHECK_THAT(error, Catch::StartsWith("[on_rank0] ") || Catch::Contains(" aborted: "));
  }
  CHECK_THAT(errors[0] + errors[1], Catch::Contains("[on_rank0] rank 0 ("));
}

}  // namespace

TEST_CASE("a late rank is named once per window, and again at the timeout", "[process][hang]") {
  std::map<std::string, Job> jobs = over_all_backends("absent");
  for (auto& [backend, job] : jobs) {
    INFO(backend);
    const std::string culprit = "pid " + std::to_string(job[2].pid()) + ", cpu)";
    for (const int rank : {0, 1}) CHECK(job[rank].wait(3s + kBound) == 3);
    const auto warnings = warnings_about(job, "has not joined all_reduce #6 (bucket 0: layer3.*);");
    INFO(job[0].err() << job[1].err());
    CHECK(warnings.size() <= 3);  // in 3 s, after 0.8 s, in windows of 1 s
    for (const std::string& line : warnings) CHECK_THAT(line, Catch::Contains("rank 2"));
    REQUIRE_FALSE(warnings.empty());  // earlier ones may come before rank 0 or 1 waits, too
    CHECK_THAT(warnings.back(), Catch::Contains("rank 2 (") && Catch::Contains(culprit) &&
                                    Catch::Contains("; last seen in step 5, outside the library; "
                                                    "2 ranks waiting "));
    for (const int rank : {0, 1}) {
      const std::string error = last_line(job[rank].err());
      CHECK_THAT(error, Catch::Contains("timed out after 3000 ms: rank 2 (") &&
                            Catch::Contains("has not joined all_reduce #6 (bucket 0: layer3.*)"));
      CHECK(sentence_of(error) == sentence_of(last_line(job[0].err())));
    }
  }
}

// It mostly sleeps.
TEST_CASE("with the library's own patience, a late rank is named within ten seconds",
          "[process][hang]") {
  Job job(3, "absent", "shm", "patient");
  job.wait_until_ready();
  const auto begin = Clock::now();
  const auto has_warned = [](const test::ChildProcess& rank) {
    return rank.err().find("[ddp] warning") != std::string::npos;
  };
  // Either rank may be the one that warns, so one of the two waits ends without a warning.
  const std::string err = [&] {
    for (;;) {
      for (const int rank : {0, 1}) {
        try {
          job[rank].wait_until(has_warned, 50ms);
          return job[rank].err();
        } catch (const TimeoutError&) {
          if (Clock::now() - begin > kPatientBound) throw;
        }
      }
    }
  }();
  CHECK(Clock::now() - begin > 5s);  // not before the patience of eight seconds is over
  CHECK_THAT(err, Catch::Contains("rank 2 (") &&
                      Catch::Contains("has not joined all_reduce #6 (") &&
                      Catch::Contains("2 ranks waiting "));
}

TEST_CASE("ranks whose group breaks write their last events to a file", "[process][hang]") {
  const test::TemporaryDirectory folder;
  const std::string file = folder.path() / "events.txt";
  const auto environment = [&](int) { return test::Environment{{"DDP_EVENTS_FILE", file}}; };
  for (const std::string& backend : test::cpu_backends()) {
    INFO(backend);
    std::filesystem::remove(file);
    Job job(3, "absent", backend, "quick", environment);
    for (const int rank : {0, 1}) CHECK(job[rank].wait(3s + kBound) == 3);
    const std::string text = test::bytes_of(file);
    for (const int rank : {0, 1}) {
      CHECK_THAT(text, Catch::Contains("[rank " + std::to_string(rank) + " (") &&
                           Catch::Contains(", group default of 3 ranks] "));
    }
    CHECK_THAT(text,
               Catch::Contains(" s  step 5  all_reduce #6 (bucket 0: layer3.*): submitted\n"));
    CHECK_THAT(text, Catch::Contains("the group broke\nerror: ") &&
                         Catch::Contains("timed out after 3000 ms: rank 2 ("));
  }
}

TEST_CASE("a rank that is told of another's timeout records it as that one's", "[process][hang]") {
  const test::TemporaryDirectory folder;
  const auto record_of = [&](int rank) { return folder.path() / std::to_string(rank); };
  const auto environment = [&](int rank) {
    return test::Environment{{"TORCHELASTIC_ERROR_FILE", record_of(rank).string()}};
  };
  for (const std::string& backend : test::cpu_backends()) {
    INFO(backend);
    Job job(3, "absent", backend, "quick", environment);
    int own = 0;
    for (const int rank : {0, 1}) {
      CHECK(job[rank].wait(3s + kBound) == 3);
      const std::string record = test::bytes_of(record_of(rank));
      INFO(record);
      const auto has = [&](const std::string& text) { return record.find(text) != record.npos; };
      const bool is_own = has("rank " + std::to_string(rank) + ": timed out after");
      own += is_own ? 1 : 0;
      CHECK(has(": timed out after 3000 ms: rank 2 ("));
      CHECK(has("\"hang\":\"rank 2 (") == is_own);
      CHECK(has("\"caused_by_peer\":\"true\"") == !is_own);
      std::filesystem::remove(record_of(rank));
    }
    CHECK(own == 1);
  }
}

TEST_CASE("ranks that cannot write their last events say so and fail as they would",
          "[process][hang]") {
  const auto environment = [](int) {
    return test::Environment{{"DDP_EVENTS_FILE", "/no/such/events.txt"}};
  };
  Job job(3, "absent", test::cpu_backends().front(), "quick", environment);
  for (const int rank : {0, 1}) {
    CHECK(job[rank].wait(3s + kBound) == 3);
    CHECK_THAT(job[rank].err(),
               Catch::Contains("[events] DDP_EVENTS_FILE=/no/such/events.txt: cannot "
                               "write the last events: No such file") &&
                   Catch::Contains("timed out after 3000 ms: rank 2 ("));
  }
}

TEST_CASE("a stopped rank is reported as stopped, not as dead", "[process][hang]") {
  for (const std::string& backend : test::cpu_backends()) {
    INFO(backend);
    Job job(3, "loop", backend);
    test::check_stop_is_told(job, 1);
  }
}

TEST_CASE("a job that was suspended for longer than its timeout goes on", "[process][hang]") {
  for (const std::string& backend : test::cpu_backends()) {
    INFO(backend);
    Job job(2, "loop", backend);
    job.wait_until_ready();
    for (const int rank : {0, 1}) job[rank].send_signal(SIGSTOP);
    std::this_thread::sleep_for(4s);  // the timeout is three seconds
    for (const int rank : {0, 1}) job[rank].send_signal(SIGCONT);
    for (const std::string& end : job.wait_all(1s)) {
      CHECK_THAT(end, Catch::StartsWith("still running"));
    }
  }
}

TEST_CASE("a stopped peer of a batch of receives is named, not one of the others",
          "[process][hang]") {
  std::map<std::string, Job> jobs = over_all_backends("batch");
  for (auto& [backend, job] : jobs) {
    job.wait_until_ready();
    job[2].send_signal(SIGSTOP);
  }
  for (auto& [backend, job] : jobs) {
    INFO(backend);
    CHECK(job[0].wait(3s + kBound) == 3);
    CHECK_THAT(last_line(job[0].err()),
               Catch::Contains("timed out after 3000 ms: rank 2 (") &&
                   Catch::Contains("is stopped (SIGSTOP) and has not joined recv #2 (float32[1]) "
                                   "from rank 2; last seen "));
  }
}

TEST_CASE("of several peers of a batch, none is blamed without a reason", "[process][hang]") {
  std::map<std::string, Job> jobs = over_all_backends("batch");
  for (auto& [backend, job] : jobs) {
    INFO(backend);
    CHECK(job[0].wait(3s + kBound) == 3);
    CHECK_THAT(last_line(job[0].err()),
               Catch::Contains("timed out after 3000 ms: at least one of ranks 1, 2 has not joined "
                               "a batch of 2 sends and receives, beginning with recv #1 "
                               "(float32[1]) from rank 1; 1 rank waiting "));
  }
}

TEST_CASE("in a split, too, a stopped rank is reported as stopped, not as late",
          "[process][hang]") {
  Job job(3, "split");
  job.wait_until_ready();
  job[2].send_signal(SIGSTOP);
  for (const int rank : {0, 1}) CHECK(job[rank].wait(3s + kBound) == 3);
  INFO(job[0].err() << job[1].err());
  const std::string plight =
      "is stopped (SIGSTOP) and has not joined all_gather #2 (split); last seen ";
  const auto warnings = warnings_about(job, plight);  // an earlier one may come before the signal
  REQUIRE_FALSE(warnings.empty());
  CHECK_THAT(warnings.back(), Catch::Contains("rank 2 ("));
  for (const int rank : {0, 1}) {
    CHECK_THAT(last_line(job[rank].err()),
               Catch::Contains("timed out after 3000 ms: rank 2 (") && Catch::Contains(plight));
  }
}

TEST_CASE("a rank 0 that is stopped in on_rank0 is reported", "[process][hang]") {
  Job job(3, "on_rank0");
  job[0].wait_for_output("waiting");
  job[0].send_signal(SIGSTOP);
  check_leader_is_blamed(job, "is stopped (SIGSTOP) in on_rank0");
}

// Nothing that the others ask the store is answered then, so they need some seconds more.
TEST_CASE("a rank 0 that is stopped in on_rank0 is reported, even if it hosts the store",
          "[process][hang]") {
  Job job(3, "on_rank0", "auto", "quick", {}, test::StoreHost::kRank0);
  job[0].wait_for_output("waiting");
  std::this_thread::sleep_for(4s);  // until the others know that rank 0 is there
  job[0].send_signal(SIGSTOP);
  for (const int rank : {1, 2}) {
    CHECK(job[rank].wait(3 * kBound) == 3);
    CHECK_THAT(last_line(job[rank].err()), Catch::Contains("[on_rank0] rank 0 (") &&
                                               Catch::Contains("is stopped (SIGSTOP) in on_rank0"));
  }
}

TEST_CASE("a rank 0 that dies in on_rank0 is reported", "[process][hang]") {
  Job job(3, "on_rank0");
  job[0].wait_for_output("waiting");
  job[0].send_signal(SIGKILL);
  CHECK(job[0].wait(kBound) == 128 + SIGKILL);
  check_leader_is_blamed(job, "has ended in on_rank0");
}
