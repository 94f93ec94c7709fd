// SPDX-License-Identifier: MIT
//
// Finding the rank that keeps a job waiting: who watches, reports and is told.
// hang_process_test.cpp tests this with real processes, call_timeout_test.cpp the timeout of one
// call.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/hang/rank_progress.h"
#include "ddp/collectives/on_rank0.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/store/hash_store.h"
#include "support/becomes_true.h"
#include "support/collective_calls.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::all_reduce;
using test::becomes_true;
using test::error_of;
using test::expect;

namespace {

// A call in which ranks wait for each other, and the rank that does not call it.
struct Meeting {
  std::string name;
  std::string wait;  // its name in reports
  int absent;
  std::function<void(ProcessGroup&)> join;
};

std::vector<Meeting> meetings() {
  return {
      {"split", "all_gather #1 (split)", 2, [](ProcessGroup& group) { (void)group.split(0, 0); }},
      {"duplicate", "barrier #1 (duplicate)", 2,
       [](ProcessGroup& group) { (void)group.duplicate(); }},
      {"on_rank0", "on_rank0 #1", 0, [](ProcessGroup& group) { on_rank0(group, [] {}); }}};
}

std::shared_ptr<ProcessGroup> make_group(Backend backend, GroupConfig config) {
  if (backend == Backend::kTcp) return make_tcp_process_group(std::move(config), "127.0.0.1");
  if (backend == Backend::kShmTcp) {
    return make_hierarchical_process_group(std::move(config), test::two_hosts(3), "127.0.0.1");
  }
  return make_shm_process_group(std::move(config));
}

// There is one report, and by then all that wait must have begun to, and the watches must know it.
constexpr HangWatchOptions kReportOnce = {.period = 10ms, .patience = 5s, .window = 1h};
// For tests of what is known when an operation times out.
constexpr HangWatchOptions kImpatient = {.period = 10ms, .patience = 200ms, .window = 1h};

// Runs fn(group) on three ranks. Each rank is a thread with its own group and its own hang watch.
void run_watched(Backend backend, Timeout timeout, const HangWatchOptions& options,
                 const HangWatch::Report& report, const std::function<void(ProcessGroup&)>& fn) {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(3, [&](int rank) {
    const auto watch =
        std::make_shared<HangWatch>(store, identify_self(rank, kCpuDevice), options, report);
    const auto group = make_group(backend, {.store = store,
                                            .rank = rank,
                                            .world_size = 3,
                                            .timeout = timeout,
                                            .start_timeout = test::kStartTimeout,
                                            .job = {.hang_watch = watch}});
    fn(*group);
  });
}

// Each operation of this store throws what `fail` throws.
class FailingStore final : public Store {
 public:
  explicit FailingStore(std::function<void()> fail) : fail_(std::move(fail)) {}

  void set(std::string_view, std::string_view) override { fail_(); }
  std::string get(std::string_view, Timeout) override { return fail<std::string>(); }
  std::int64_t add(std::string_view, std::int64_t) override { return fail<std::int64_t>(); }
  std::string compare_set(std::string_view, std::string_view, std::string_view) override {
    return fail<std::string>();
  }
  void wait(std::span<const std::string>, Timeout) override { fail_(); }
  bool check(std::span<const std::string>) override { return fail<bool>(); }
  bool delete_key(std::string_view) override { return fail<bool>(); }
  std::shared_ptr<Store> clone(Timeout) const override {
    return std::make_shared<FailingStore>(fail_);
  }
  Timeout timeout() const override { return 1s; }

 private:
  template <class T>
  T fail() const {
    fail_();
    return {};
  }

  std::function<void()> fail_;
};

}  // namespace

// Other tests are more impatient, and scripts/soak.sh measures.
TEST_CASE("the library's own patience keeps what is promised", "[hang]") {
  constexpr HangWatchOptions kWatch;
  STATIC_REQUIRE(kWatch.patience + 2 * kWatch.period <= 10s);  // a look, and what it costs
  STATIC_REQUIRE(kWatch.window >= 10s);
  constexpr OnRank0Options kOnRank0;
  STATIC_REQUIRE(kOnRank0.silence + 2 * kOnRank0.period <= 25s);
  STATIC_REQUIRE(FlightRecorder::kCapacity == 4096);
}

TEST_CASE("one of the waiting ranks reports the missing rank, and all know it", "[hang]") {
  HashStore store;
  test::Gate reports;
  std::mutex mutex;
  std::string line;
  const auto report = [&](std::string_view text) {
    const std::lock_guard lock(mutex);
    line = text;
    reports.raise();
  };
  std::vector<std::shared_ptr<FlightRecorder>> recorders;
  std::vector<std::unique_ptr<HangWatch>> watches;
  for (int rank = 0; rank < 3; ++rank) {
    recorders.push_back(std::make_shared<FlightRecorder>());
    watches.push_back(std::make_unique<HangWatch>(store.clone(), identify_self(rank, kCpuDevice),
                                                  kReportOnce, report));
    watches.back()->add("default", {0, 1, 2}, recorders.back());
    recorders.back()->begin_step(3);
  }
  for (const int rank : {0, 2}) {
    recorders[static_cast<std::size_t>(rank)]->submitted(1, all_reduce());
  }
  REQUIRE(reports.wait_for(1));
  const auto knows = [](const FlightRecorder& recorder) {
    return recorder.hang().diagnosis().find("rank 1 (") == 0;
  };
  CHECK(becomes_true([&] { return knows(*recorders[0]) && knows(*recorders[2]); }));
  CHECK(recorders[1]->hang().diagnosis().empty());
  recorders[1]->submitted(1, all_reduce());
  for (const auto& recorder : recorders) recorder->done(1, Clock::now());
  CHECK(becomes_true([&] { return !knows(*recorders[0]) && !knows(*recorders[2]); }));
  watches.clear();
  CHECK(reports.count() == 1);
  CHECK_THAT(line, Catch::Matches("rank 1 \\(.* has not joined all_reduce #1 \\(float32\\[1\\], "
                                  "sum\\); last seen in step 3, outside the library; 2 ranks "
                                  "waiting ([2-9]|[1-9][0-9])\\.[0-9] s in step 3"));
}

// The clocks of two hosts may differ by hours.
TEST_CASE("a rank of another host is silent for as long as this rank has listened", "[hang]") {
  HashStore store;
  const RankProgress dead{.who = {.rank = 1, .host = "another host"}, .heartbeat = 7, .time_ms = 0};
  store.set("progress/1", serialize(dead));
  const auto recorder = std::make_shared<FlightRecorder>();
  recorder->submitted(1, all_reduce());
  HangWatch watch(store.clone(), identify_self(0, kCpuDevice), kImpatient, [](std::string_view) {});
  watch.add("default", {0, 1}, recorder);
  const auto diagnosis = [&] { return recorder->hang().diagnosis(); };
  REQUIRE(becomes_true([&] { return diagnosis().find("no sign of life") != std::string::npos; }));
  CHECK_THAT(diagnosis(), Catch::Matches(".* s and has not joined all_reduce #1 .*; last seen "
                                         "outside the library, [0-9]\\.[0-9] s ago; .*"));
}

TEST_CASE("two groups that hang at once both know why, and one of them reports it", "[hang]") {
  HashStore store;
  test::Gate reports;
  std::vector<std::shared_ptr<FlightRecorder>> recorders;
  std::vector<std::unique_ptr<HangWatch>> watches;
  for (int rank = 0; rank < 4; ++rank) {
    recorders.push_back(std::make_shared<FlightRecorder>());
    watches.push_back(std::make_unique<HangWatch>(store.clone(), identify_self(rank, kCpuDevice),
                                                  kImpatient,
                                                  [&](std::string_view) { reports.raise(); }));
    const int first = rank / 2 * 2;
    watches.back()->add("pair " + std::to_string(first), {first, first + 1}, recorders.back());
    if (rank % 2 == 0) recorders.back()->submitted(1, all_reduce());
  }
  const auto blames = [&](int waiter, const char* culprit) {
    return recorders[static_cast<std::size_t>(waiter)]->hang().diagnosis().starts_with(culprit);
  };
  CHECK(becomes_true([&] { return blames(0, "rank 1 (") && blames(2, "rank 3 ("); }));
  REQUIRE(reports.wait_for(1));
  watches.clear();
  CHECK(reports.count() == 1);
}

// Ranks 1 and 2 of the job are ranks 0 and 1 of the group.
TEST_CASE("the silent peer of a transfer in a part of the job is named by its rank in the job",
          "[hang]") {
  HashStore store;
  std::vector<std::shared_ptr<FlightRecorder>> recorders;
  std::vector<std::unique_ptr<HangWatch>> watches;
  for (const int rank : {1, 2, 3}) {
    recorders.push_back(std::make_shared<FlightRecorder>());
    watches.push_back(std::make_unique<HangWatch>(store.clone(), identify_self(rank, kCpuDevice),
                                                  kImpatient, [](std::string_view) {}));
    watches.back()->add("part", {1, 2, 3}, recorders.back());
  }
  Collective recv = all_reduce();
  recv.kind = CollectiveKind::kRecv;
  recv.peer = 0;
  recorders[1]->submitted(1, recv);
  CHECK(becomes_true([&] { return recorders[1]->hang().diagnosis().starts_with("rank 1 ("); }));
  CHECK_THAT(recorders[1]->hang().diagnosis(), Catch::Contains("has not joined recv #1"));
}

TEST_CASE("a rank that does not join a split, a duplicate or on_rank0 is named", "[hang]") {
  test::for_each_at_once(meetings(), [](const Meeting& meeting) {
    test::Gate reports;
    std::string line;  // there is at most one
    const auto report = [&](std::string_view text) {
      line = text;
      reports.raise();
    };
    run_watched(Backend::kShm, 60s, kReportOnce, report, [&](ProcessGroup& group) {
      if (group.rank() == meeting.absent) expect(reports.wait_for(1), "a report");
      meeting.join(group);
    });
    expect(line.starts_with("rank " + std::to_string(meeting.absent) + " (") &&
               line.find("has not joined " + meeting.wait +
                         "; last seen outside the library; 2 ranks waiting ") != line.npos,
           line);
    expect(reports.count() == 1, "one report");
  });
}

TEST_CASE("the timeout of a split, a duplicate or on_rank0 names the missing rank", "[hang]") {
  const auto say_nothing = [](std::string_view) {};
  test::for_each_at_once(test::backends(), [&](Backend backend) {
    test::for_each_at_once(meetings(), [&](const Meeting& meeting) {
      // The other meetings do not depend on the backend.
      if (backend != Backend::kShm && meeting.name != "duplicate") return;
      test::Gate errors;
      run_watched(backend, 3s, kImpatient, say_nothing, [&](ProcessGroup& group) {
        if (group.rank() == meeting.absent) {
          expect(errors.wait_for(2), "two errors");
          return;
        }
        const std::string text = error_of([&] { meeting.join(group); });
        errors.raise();
        const std::string who = "rank " + std::to_string(meeting.absent) + " (";
        const bool is_operation = meeting.name != "on_rank0";  // ranks agree on its text
        const std::string sentence = is_operation ? text.substr(text.find(':') + 1) : text;
        const std::string lead =
            is_operation ? " timed out after 3000 ms: " : "[" + meeting.name + "] timed out: ";
        expect(sentence.starts_with(lead + who), text);
        expect(text.find("has not joined " + meeting.wait + "; ") != std::string::npos, text);
      });
    });
  });
}

TEST_CASE("a rank that waits in an operation of a part is named with the part", "[hang]") {
  test::Gate reports;
  std::string line;
  const auto report = [&](std::string_view text) {
    line = text;
    reports.raise();
  };
  run_watched(Backend::kShm, 60s, kReportOnce, report, [&](ProcessGroup& group) {
    const auto part = group.split(group.rank() == 0 ? 0 : 1, 0);
    if (group.rank() == 0) return;
    if (group.rank() == 2) expect(reports.wait_for(1), "a report");
    (void)part->duplicate();
  });
  CHECK_THAT(line, Catch::StartsWith("rank 2 (") &&
                       Catch::Contains("has not joined barrier #1 (duplicate) of group "
                                       "default/split0/color1; last seen outside the library; 1 "
                                       "rank waiting "));
}

TEST_CASE("while the store does not answer, this is the diagnosis, and rank 1 reports it",
          "[hang]") {
  const auto silent = std::make_shared<FailingStore>([] { throw TimeoutError("no answer"); });
  for (const int rank : {0, 1, 2}) {
    CAPTURE(rank);
    test::Gate reports;
    const auto recorder = std::make_shared<FlightRecorder>();
    recorder->submitted(1, all_reduce());
    {
      HangWatch watch(silent, identify_self(rank, kCpuDevice),
                      {.period = 1ms, .patience = 20ms, .window = 1h},
                      [&](std::string_view) { reports.raise(); });
      watch.add("default", {0, 1, 2}, recorder);
      REQUIRE(becomes_true([&] { return !recorder->hang().diagnosis().empty(); }));
      if (rank == 1) REQUIRE(reports.wait_for(1));
      if (rank != 1) std::this_thread::sleep_for(50ms);  // its patience ends without a report
    }
    CHECK(reports.count() == (rank == 1 ? 1 : 0));
    CHECK_THAT(recorder->hang().diagnosis(), Catch::StartsWith("the job's store does not answer") &&
                                                 Catch::Contains("this rank has waited ") &&
                                                 Catch::Contains(" in all_reduce #1"));
  }
}

TEST_CASE("a store that stops to answer is not reported right after another report", "[hang]") {
  // Answers until it is told to be silent.
  class SilencedStore final : public test::ForwardingStore {
   public:
    SilencedStore(std::shared_ptr<Store> store, const std::atomic<bool>& is_silent)
        : ForwardingStore(std::move(store)), is_silent_(is_silent) {}
    void set(std::string_view key, std::string_view value) override {
      if (is_silent_) throw TimeoutError("no answer");
      ForwardingStore::set(key, value);
    }
    std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

   private:
    const std::atomic<bool>& is_silent_;
  };
  std::atomic<bool> is_silent = false;
  const auto store = std::make_shared<SilencedStore>(std::make_shared<HashStore>(), is_silent);
  test::Gate reports;
  const auto recorder = std::make_shared<FlightRecorder>();
  recorder->submitted(1, all_reduce());
  {
    HangWatch watch(store, identify_self(1, kCpuDevice),
                    {.period = 1ms, .patience = 20ms, .window = 1h},
                    [&](std::string_view) { reports.raise(); });
    watch.add("default", {0, 1}, recorder);
    REQUIRE(reports.wait_for(1));  // of rank 0, which has not joined
    is_silent = true;
    REQUIRE(becomes_true([&] {
      return recorder->hang().diagnosis().starts_with("the job's store does not answer");
    }));
    std::this_thread::sleep_for(50ms);
  }
  CHECK(reports.count() == 1);
}

TEST_CASE("what a rank publishes forgets a training whose group is gone", "[hang]") {
  const auto store = std::make_shared<HashStore>();
  HangWatch watch(store, {.rank = 0}, kImpatient);
  const auto published_step = [&] { return parse_rank_progress(store->get("progress/0")).step; };
  auto recorder = std::make_shared<FlightRecorder>();
  watch.add("default", {0}, recorder);
  recorder->begin_step(5);
  CHECK(becomes_true([&] { return published_step() == 5; }));
  recorder.reset();
  CHECK(becomes_true([&] { return published_step() == 0; }));
}

TEST_CASE("a watch ends silently when its store is lost", "[hang]") {
  test::Gate reports;
  const auto recorder = std::make_shared<FlightRecorder>();
  recorder->submitted(1, all_reduce());
  {
    HangWatch watch(
        std::make_shared<FailingStore>([] { throw NetworkError("the connection is closed"); }),
        identify_self(0, kCpuDevice), {.period = 1ms, .patience = 2ms, .window = 1ms},
        [&](std::string_view) { reports.raise(); });
    watch.add("default", {0}, recorder);
  }
  CHECK(reports.count() == 0);
}

TEST_CASE("a timeout that is shorter than the watch's patience names the missing rank, too",
          "[hang]") {
  test::for_each_at_once(std::vector{Backend::kShm, Backend::kTcp}, [](Backend backend) {
    const auto store = std::make_shared<HashStore>();
    test::Gate errors;
    test::run_ranks(2, [&](int rank) {
      const auto group = init_process_group({.backend = backend,
                                             .device = DeviceChoice::kCpu,
                                             .rank = rank,
                                             .world_size = 2,
                                             .store = store,
                                             .ranks_are_threads = true,
                                             .timeout = 3s});
      if (rank == 1) return expect(errors.wait_for(1), "an error");
      float value = 1;
      const Buffer buffer{&value, 1, DType::kFloat32, kCpuDevice};
      const std::string text = error_of([&] { group->all_reduce(buffer).wait(); });
      errors.raise();
      expect(text.find("timed out after 3000 ms: rank 1 (") != std::string::npos, text);
      expect(text.find("has not joined all_reduce #1 (") != std::string::npos, text);
    });
  });
}
