// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/flight_recorder.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/hang/event_report.h"
#include "ddp/collectives/hang/single_writer_ring.h"
#include "support/allocation_counter.h"
#include "support/collective_calls.h"
#include "support/groups.h"
#include "support/run_ranks.h"

using namespace ddp;
using Event = FlightRecorder::Event;
using What = FlightRecorder::What;
using test::all_reduce;

namespace {

Collective send_to(int peer) {
  const Buffer buffer{nullptr, 1, DType::kFloat32, kCpuDevice};
  return {CollectiveKind::kSend, buffer, buffer, ReduceOp::kSum, peer};
}

std::vector<What> kinds(const std::vector<Event>& events) {
  std::vector<What> kinds;
  for (const Event& event : events) kinds.push_back(event.what);
  return kinds;
}

}  // namespace

TEST_CASE("a recorder lists events in order, each with its step", "[recorder]") {
  FlightRecorder recorder;
  recorder.begin_step(7);
  recorder.submitted(1, all_reduce(5));
  recorder.started(1, Clock::now());
  recorder.done(1, Clock::now());
  recorder.end_step();
  const std::vector<Event> events = recorder.events();
  CHECK(kinds(events) == std::vector<What>{What::kStepBegun, What::kSubmitted, What::kStarted,
                                           What::kDone, What::kStepEnded});
  for (const Event& event : events) CHECK(event.step == 7);
  CHECK(events[1].signature == signature_of(all_reduce(5), 1));
  CHECK(events[1].time <= events[3].time);
}

TEST_CASE("a recorder keeps the last events", "[recorder]") {
  FlightRecorder recorder;
  constexpr std::uint64_t kNoted = FlightRecorder::kCapacity + 10;
  for (std::uint64_t i = 1; i <= kNoted; ++i) recorder.started(i, {});
  const std::vector<Event> events = recorder.events();
  REQUIRE(events.size() == FlightRecorder::kCapacity);
  CHECK(events.front().operation == 11);
  CHECK(events.back().operation == kNoted);
}

TEST_CASE("the last events are those of the caller and of the backend together", "[recorder]") {
  FlightRecorder recorder;
  constexpr std::uint64_t kNoted = FlightRecorder::kCapacity;
  for (std::uint64_t i = 1; i <= kNoted; ++i) {
    recorder.submitted(i, all_reduce(1));
    recorder.done(i, Clock::now());
  }
  recorder.broken();
  const std::vector<Event> events = recorder.events();
  REQUIRE(events.size() == FlightRecorder::kCapacity);
  CHECK(events.front().what == What::kDone);
  CHECK(events.front().operation == kNoted / 2 + 1);
  CHECK(events[1].what == What::kSubmitted);
  CHECK(events.back().what == What::kBroken);
}

TEST_CASE("recording an event allocates nothing", "[recorder]") {
  FlightRecorder recorder;
  const FlightRecorder::Label label = recorder.labels().add("bucket 0: everything");
  const std::int64_t before = test::allocations();
  for (std::uint64_t i = 1; i <= 10; ++i) {
    const FlightRecorder::Inside inside(recorder);
    recorder.begin_step(i);
    recorder.submitted(i, all_reduce(1, label));
    recorder.done(i, Clock::now());
    recorder.end_step();
  }
  CHECK(test::allocations() == before);
}

TEST_CASE("a reader sees only complete events while caller and backend record", "[recorder]") {
  FlightRecorder recorder;
  std::atomic<int> writers = 2;
  const auto stamp = [](std::uint64_t value) {
    return Clock::time_point(Clock::duration(static_cast<Clock::rep>(value)));
  };
  test::run_ranks(3, [&](int rank) {
    if (rank < 2) {
      for (std::uint64_t i = 1; i <= 50'000; ++i) {
        rank == 0 ? recorder.submitted(i, all_reduce(i)) : recorder.started(i, stamp(i));
      }
      --writers;
      return;
    }
    while (writers > 0) {
      for (const Event& event : recorder.events()) {
        const bool is_whole =
            event.what == What::kSubmitted
                ? event.signature == signature_of(all_reduce(event.operation), event.operation)
                : event.time == stamp(event.operation);
        test::expect(is_whole, "the parts of an event to belong together");
      }
    }
  });
  CHECK(recorder.events().size() == FlightRecorder::kCapacity);
}

TEST_CASE("the oldest pending operation is the first one that is not done", "[recorder]") {
  FlightRecorder recorder;
  CHECK_FALSE(recorder.oldest_pending());
  for (std::uint64_t i = 1; i <= 3; ++i) recorder.submitted(i, all_reduce(i));
  const auto first = recorder.oldest_pending();
  REQUIRE(first);
  CHECK(first->operations[0].operation == 1);
  CHECK(first->since == first->operations[0].time);
  const Clock::time_point done = Clock::now();
  recorder.done(2, done);
  const auto last = recorder.oldest_pending();
  REQUIRE(last);
  CHECK(last->operations[0].signature.count == 3);
  CHECK(last->since == done);  // before that, it was queued behind another operation
  recorder.broken();
  CHECK_FALSE(recorder.oldest_pending());
}

TEST_CASE("a rank is in a step until all engines of the group have ended their passes",
          "[recorder]") {
  FlightRecorder recorder;
  recorder.begin_step(1);
  recorder.begin_step(1);
  recorder.end_step();
  CHECK(recorder.position().is_in_step);
  recorder.end_step();
  CHECK_FALSE(recorder.position().is_in_step);
  recorder.end_step();
  recorder.begin_step(2);
  CHECK(recorder.position().is_in_step);
}

TEST_CASE("a step that was left in the middle is told from one that ended", "[recorder]") {
  FlightRecorder recorder;
  recorder.begin_step(1);
  recorder.leave_step();
  CHECK_FALSE(recorder.position().is_in_step);
  CHECK(recorder.position().has_left_step);
  CHECK_THAT(describe_events(recorder, "rank 0"),
             Catch::Contains("step 1  the step is left in the middle"));
  recorder.begin_step(1);  // again, with a new engine
  recorder.end_step();
  CHECK_FALSE(recorder.position().has_left_step);
}

TEST_CASE("a label is known by its hash on a rank that numbers it differently", "[recorder]") {
  OperationLabels here, there;
  (void)there.add("another");
  const std::uint16_t hash = OperationLabels::hash_of(there.add("bucket 4: layer3.*"));
  CHECK(here.text_of_hash(hash).empty());
  (void)here.add("bucket 4: layer3.*");
  CHECK(here.text_of_hash(hash) == "bucket 4: layer3.*");
  CHECK(here.text_of_hash(0).empty());
  // With so many texts, two have the same hash.
  for (int i = 0; i < 2000; ++i) (void)here.add("bucket " + std::to_string(i));
  int ambiguous = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = "bucket " + std::to_string(i);
    const std::string found = here.text_of_hash(OperationLabels::hash_of(here.add(text)));
    CHECK((found == text || found.empty()));
    ambiguous += found.empty() ? 1 : 0;
  }
  CHECK((ambiguous > 0 && ambiguous < 200));
}

TEST_CASE("the operations of a batch are pending together", "[recorder]") {
  FlightRecorder recorder;
  recorder.submitted(1, all_reduce(1));
  recorder.submitted(3, all_reduce(2));
  recorder.submitted(3, all_reduce(3));
  recorder.submitted(4, all_reduce(4));
  recorder.done(1, Clock::now());
  const auto batch = recorder.oldest_pending();
  REQUIRE(batch);
  REQUIRE(batch->operations.size() == 2);
  CHECK(batch->operations[0].signature.count == 2);
  CHECK(batch->operations[1].signature.count == 3);
}

TEST_CASE("collectives are counted without sends and receives", "[recorder]") {
  FlightRecorder recorder;
  recorder.submitted(1, send_to(3));
  recorder.submitted(2, all_reduce(1));
  CHECK(recorder.position().collectives == 1);
  const std::vector<Event> events = recorder.events();
  CHECK(describe_operation(recorder, events[0]) == "send #1 (float32[1]) to rank 3");
  CHECK(describe_operation(recorder, events[1]) == "all_reduce #1 (float32[1], sum)");
}

TEST_CASE("a label is what an operation is called", "[recorder]") {
  FlightRecorder recorder;
  const FlightRecorder::Label label = recorder.labels().add("bucket 4: layer3.*");
  CHECK(recorder.labels().add("another") != label);
  CHECK(recorder.labels().add("bucket 4: layer3.*") == label);
  recorder.submitted(1, all_reduce(1, label));
  recorder.submitted(2, all_reduce(1));
  const std::vector<Event> events = recorder.events();
  CHECK(describe_operation(recorder, events[0]) == "all_reduce #1 (bucket 4: layer3.*)");
  CHECK(describe_operation(recorder, events[1]) == "all_reduce #2 (float32[1], sum)");
}

TEST_CASE("operations of a batch have the labels of their calls", "[recorder]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    std::vector<float> values(3);
    auto batch = group.batch();
    for (const char* purpose : {"validation", "the mean loss"}) {
      const ScopedLabel labelled(group, purpose);
      static_cast<void>(group.all_reduce(buffer_of(values)));
    }
    batch.end().wait();
    std::string submitted;
    for (const Event& event : group.recorder().events()) {
      if (event.what != What::kSubmitted) continue;
      submitted += describe_operation(group.recorder(), event) + "; ";
    }
    test::expect(submitted == "all_reduce #1 (validation); all_reduce #2 (the mean loss); ",
                 submitted);
  });
}

TEST_CASE("a rank is inside the library while a call lasts", "[recorder]") {
  FlightRecorder recorder;
  {
    const FlightRecorder::Inside outer(recorder);
    { const FlightRecorder::Inside inner(recorder); }
    CHECK(recorder.position().is_inside);
  }
  CHECK_FALSE(recorder.position().is_inside);
}

TEST_CASE("a recorder's events are described with operation, step and time", "[recorder]") {
  FlightRecorder recorder;
  recorder.begin_step(7);
  const FlightRecorder::Label label = recorder.labels().add("bucket 0: fc.*");
  recorder.bucket_ready(label);
  recorder.submitted(1, all_reduce(5, label));
  recorder.submitted(2, send_to(3));
  recorder.started(1, Clock::now());
  recorder.done(1, Clock::now());
  recorder.started(9, Clock::now());  // its submission is no longer in the ring
  recorder.end_step();
  recorder.broken();
  std::istringstream lines(describe_events(recorder, "rank 1"));
  std::string line;
  std::getline(lines, line);
  CHECK_THAT(line, Catch::Matches("\\[rank 1\\] 9 events until 20[0-9-]+ [0-9:]+ UTC"));
  for (const char* expected : {"the step begins", "bucket 0: fc\\.\\*: ready",
                               "all_reduce #1 \\(bucket 0: fc\\.\\*\\): submitted",
                               "send #1 \\(float32\\[1\\]\\) to rank 3: submitted",
                               "all_reduce #1 \\(bucket 0: fc\\.\\*\\): started",
                               "all_reduce #1 \\(bucket 0: fc\\.\\*\\): done",
                               "an older operation: started", "the step ends", "the group broke"}) {
    REQUIRE(std::getline(lines, line));
    CHECK_THAT(line, Catch::Matches(" *-[0-9]+\\.[0-9]{6} s  step 7  " + std::string(expected)));
  }
  CHECK_FALSE(std::getline(lines, line));
}

TEST_CASE("each operation of a batch is described when it is submitted", "[recorder]") {
  FlightRecorder recorder;
  recorder.submitted(2, send_to(3));
  recorder.submitted(2, send_to(4));
  recorder.done(2, Clock::now());
  const std::string text = describe_events(recorder, "rank 1");
  CHECK_THAT(text, Catch::Contains("send #1 (float32[1]) to rank 3: submitted") &&
                       Catch::Contains("send #2 (float32[1]) to rank 4: submitted") &&
                       Catch::Contains("send #1 (float32[1]) to rank 3 and 1 more: done"));
}

TEST_CASE("a recorder without capacity keeps nothing", "[recorder]") {
  FlightRecorder recorder(0);
  recorder.begin_step(1);
  recorder.submitted(1, all_reduce(1));
  CHECK(recorder.events().empty());
}

TEST_CASE("a ring gives a value by its number until it is overwritten", "[recorder]") {
  SingleWriterRing<std::uint64_t> ring(3);
  CHECK_FALSE(ring.value(1));
  for (std::uint64_t n = 1; n <= 4; ++n) ring.push(10 * n);
  CHECK_FALSE(ring.value(0));
  CHECK_FALSE(ring.value(1));
  CHECK(ring.value(2) == 20U);
  CHECK(ring.value(4) == 40U);
  CHECK_FALSE(ring.value(5));
  CHECK_FALSE(SingleWriterRing<std::uint64_t>(0).value(1));
}
