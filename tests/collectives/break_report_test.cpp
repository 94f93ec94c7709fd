// SPDX-License-Identifier: MIT
//
// What a rank writes when its group breaks, and that only the waits for the broken operation wait
// for it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/collectives/failure/break_report.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/hang/event_report.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/queue/operation_queue.h"
#include "ddp/store/hash_store.h"
#include "support/becomes_true.h"
#include "support/files.h"
#include "support/gate.h"
#include "support/groups.h"
#include "support/scoped_variable.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

bool is_broken(const FlightRecorder& recorder) {
  const auto breaks = [](const auto& event) { return event.what == FlightRecorder::What::kBroken; };
  return std::ranges::any_of(recorder.events(), breaks);
}

// What a program and the hang watch may do while a rank writes its report.
void use(ProcessGroup& group, const Buffer& operand, int src) {
  const Work work = group.recv(operand, src);
  const std::string error = error_of([&] { work.wait_host(100ms); });
  expect(error.find("is not done after 100 ms") != std::string::npos, "a timeout, not: " + error);
  group.recorder().hang().remind();
}

// Makes a pipe with this name, and returns its reader.
FileDescriptor full_pipe(const std::string& path) {
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const FileDescriptor writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string page(4096, 'x');
  while (::write(writer.get(), page.data(), page.size()) > 0) {
  }
  return reader;
}

}  // namespace

TEST_CASE("only the first error that breaks a group is reported", "[break_report]") {
  FlightRecorder recorder;
  std::vector<std::string> texts;
  const auto write = [&](const FlightRecorder& told_by, const std::exception_ptr& error) {
    CHECK(is_broken(told_by));
    texts.push_back(describe(error));
  };
  BreakReport report(write);
  report.tell(recorder, std::make_exception_ptr(PeerError("first")));
  report.tell(recorder, std::make_exception_ptr(PeerError("second")));
  CHECK(texts == std::vector<std::string>{"first"});
  BreakReport of_leaving(write);
  of_leaving.tell(recorder, nullptr);
  of_leaving.tell(recorder, std::make_exception_ptr(PeerError("too late")));
  CHECK(texts.size() == 1);
}

TEST_CASE("the record of a timeout says whether it is another rank's", "[break_report]") {
  const test::TemporaryDirectory folder;
  const std::string note =
      GroupFailure{GroupFailure::Kind::kTimeout,
                   "[x] rank 0: timed out after 2 ms: rank 1: timed out after 1 ms", "", 0}
          .note();
  for (const int self : {0, 1}) {
    const std::string file = folder / std::to_string(self);
    GroupState group({.store = std::make_shared<HashStore>(),
                      .rank = self,
                      .world_size = 2,
                      .launcher = {.error_file = ErrorFile(file)}});
    group.recorder->hang().set_diagnosis("rank 1 is stopped");
    group.report->tell(*group.recorder, GroupFailure::from_note(note).error(self));
    const std::string record = test::bytes_of(file);
    CHECK_THAT(record, Catch::Contains(self == 0 ? R"("caused_by_peer":"false")"
                                                 : R"("caused_by_peer":"true")"));
    CHECK((record.find("rank 1 is stopped") != std::string::npos) == (self == 0));
  }
}

TEST_CASE("a queue throws an error only once it is reported", "[break_report]") {
  const bool from_outside = GENERATE(false, true);
  CAPTURE(from_outside);
  test::Gate begun, may_end;
  std::atomic<bool> is_written = false;
  const auto write = [&](const FlightRecorder&, const std::exception_ptr&) {
    begun.raise();
    is_written = may_end.wait_for(1);
  };
  const auto execute = [](std::span<const Collective>) -> std::optional<Interval> {
    throw PeerError("rank 1 died");
  };
  OperationQueue queue("test", "[test]", std::make_shared<FlightRecorder>(), execute,
                       std::make_shared<BreakReport>(write));
  std::future<void> failing;
  if (from_outside) {
    const auto fail = [&] { queue.fail(std::make_exception_ptr(PeerError("rank 1 died"))); };
    failing = std::async(std::launch::async, fail);
    REQUIRE(begun.wait_for(1));
  }
  const Collective barrier;
  const std::uint64_t operation = queue.submit({&barrier, 1});
  REQUIRE(begun.wait_for(1));
  CHECK_THROWS_AS(queue.wait(operation, 10ms), TimeoutError);
  may_end.raise();
  CHECK_THROWS_AS(queue.wait(operation, 10s), PeerError);
  CHECK(is_written);
}

// Nobody reads the full pipe that is the file of events, so writing it blocks, as on a network's
// disk that does not answer.
TEST_CASE("a rank that cannot write its report can still submit, and wait for a time",
          "[break_report]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  CAPTURE(to_string(backend));
  const test::TemporaryDirectory folder;
  const std::string pipe = folder / "events";
  const test::ScopedVariable events("DDP_EVENTS_FILE", pipe);
  FileDescriptor reader = full_pipe(pipe);  // closed once all have tried
  test::Gate used;
  test::run_groups(backend, 3, [&](ProcessGroup& group) {
    std::vector<float> values(2);
    const int src = (group.rank() + 1) % 3;  // which sends nothing
    const Work broken = group.recv(buffer_of(values).slice(0, 1), src);
    const auto abort = [&] {
      if (group.rank() == 1) group.abort("on purpose");
    };
    const auto aborting = std::async(std::launch::async, abort);
    const bool breaks = test::becomes_true([&] { return is_broken(group.recorder()); });
    auto using_it =
        std::async(std::launch::async, [&] { use(group, buffer_of(values).slice(1, 1), src); });
    const bool is_usable = using_it.wait_for(10s) == std::future_status::ready;
    used.raise();
    const bool all_used = used.wait_for(3);
    if (group.rank() == 1) reader.reset();
    expect(breaks, "the group to break");
    expect(is_usable && all_used, "bounded time");
    using_it.get();
    const std::string error = error_of([&] { broken.wait_host(); });
    expect(error.find("rank 1 aborted: on purpose") != std::string::npos, error);
  });
}

TEST_CASE("a pipe without a reader keeps no rank from its end", "[break_report]") {
  const test::TemporaryDirectory folder;
  const std::string pipe = folder / "events";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const test::ScopedVariable events("DDP_EVENTS_FILE", pipe);
  auto writing = std::async(std::launch::async,
                            [] { append_to_events_file(FlightRecorder(), "a rank", "an error"); });
  CHECK(writing.wait_for(10s) == std::future_status::ready);
  const FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}
