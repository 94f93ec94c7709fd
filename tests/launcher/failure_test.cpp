// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "launcher/processes/shared_memory.h"
#include "launcher/verdict/abort_message.h"
#include "launcher/verdict/failure.h"
#include "launcher/verdict/verdict.h"
#include "support/files.h"

using namespace ddp::launcher;
using When = Ending::When;

namespace {

Ending killed(int rank, When when) {
  return {.rank = rank, .pid = 100 + rank, .status = W_EXITCODE(0, SIGKILL), .when = when};
}

Ending failed(int rank, When when) {
  return {.rank = rank, .pid = 100 + rank, .status = W_EXITCODE(1, 0), .when = when};
}

Ending recorded(Ending ending, bool caused_by_peer) {
  ending.record = ddp::ErrorRecord{.message = "why", .caused_by_peer = caused_by_peer};
  return ending;
}

int cause_of(const std::vector<Ending>& endings) { return first_cause(endings).rank; }

// The text that say() writes to the console.
std::string said(const Failure& failure) {
  const ddp::test::TemporaryDirectory folder;
  const ddp::FileDescriptor file(::open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600));
  Console console(file.get(), file.get());
  say(console, failure);
  console.flush();
  return ddp::test::bytes_of(folder / "out");
}

WorkerFailure sample() {
  WorkerFailure failure;
  failure.first = {.rank = 3, .pid = 4711, .status = W_EXITCODE(0, SIGKILL)};
  failure.alike = 2;
  failure.others = 7;
  failure.after = std::chrono::duration<double>(12.5);
  failure.host = "node-b";
  failure.first.record = {.message = "cannot open \"x\":\n\tNo such file", .caused_by_peer = true};
  failure.step = 457;
  failure.finished = {{1, 456}, {2, std::nullopt}};
  failure.when_asked_to_stop = true;
  failure.first.out_of_memory = {.resident_bytes = 61LL << 30, .limit_bytes = 64LL << 30};
  failure.first.hint = "a hint";
  failure.frames = {"step(Batch const&) (train.cpp:57)", "main (train+0x10)"};
  failure.last_lines = {"one", "", "tab\tand \\ \x01"};
  failure.log_file = "/logs/3/stderr.log";
  return failure;
}

std::optional<WorkerFailure> worker_failure_in(const std::string& text) {
  const auto failure = failure_from_json(text);
  return failure ? std::optional(std::get<WorkerFailure>(*failure)) : std::nullopt;
}

}  // namespace

TEST_CASE("the verdict of a hang begins with the rank that did not come", "[verdict]") {
  WorkerFailure failure;
  failure.first = {.rank = 0, .pid = 4711, .status = W_EXITCODE(1, 0)};
  failure.first.record = {.message = "[shm] rank 0: timed out after 9000 ms: rank 1 is late",
                          .hang = "rank 1 (b, pid 8, cpu) has not joined barrier #3"};
  failure.others = 1;
  failure.after = std::chrono::duration<double>(12.5);
  failure.host = "a";
  failure.step = 457;
  CHECK(verdict(failure) ==
        "rank 1 (b, pid 8, cpu) has not joined barrier #3; so rank 0 (a, pid 4711) timed out, and "
        "exited with code 1 after 12.5 s; 1 other rank stopped after that");
  CHECK(verdict(std::get<WorkerFailure>(*failure_from_json(to_json(failure)))) == verdict(failure));
  failure.when_asked_to_stop = true;
  CHECK_THAT(verdict(failure),
             Catch::Contains("exited with code 1 after 12.5 s, when asked to stop"));
}

TEST_CASE("a failure is serialised as one line of text", "[failure]") {
  const WorkerFailure sent = sample();
  const std::string text = to_json(sent);
  CHECK(text.find('\n') == std::string::npos);
  const auto got = worker_failure_in(text);
  REQUIRE(got);
  CHECK(got->first.rank == 3);
  CHECK(got->first.pid == 4711);
  CHECK(got->first.status == sent.first.status);
  CHECK(got->alike == 2);
  CHECK(got->others == 7);
  CHECK(got->after == sent.after);
  CHECK(got->host == sent.host);
  REQUIRE(got->first.record);
  CHECK(got->first.record->message == sent.first.record->message);
  CHECK(got->step == 457);
  CHECK(got->finished == sent.finished);
  CHECK(got->first.record->caused_by_peer);
  CHECK(got->when_asked_to_stop);
  CHECK(got->first.out_of_memory == sent.first.out_of_memory);
  CHECK(got->first.hint == sent.first.hint);
  CHECK(got->frames == sent.frames);
  CHECK(got->last_lines == sent.last_lines);
  CHECK(got->log_file == sent.log_file);
}

TEST_CASE("a node's failure is serialised, too, and has its own verdict", "[failure][verdict]") {
  const auto got = failure_from_json(to_json(NodeFailure{"node 1 (b) was stopped", 143}));
  REQUIRE(got);
  CHECK(verdict(*got) == "node 1 (b) was stopped");
  CHECK(exit_code_after(*got) == 143);
  CHECK(said(*got) == "ddp-launch: node 1 (b) was stopped\n");
  CHECK(exit_code_after(sample()) == 128 + SIGKILL);
}

TEST_CASE("unknown parts of a failure stay unknown", "[failure]") {
  const auto got = worker_failure_in(to_json(WorkerFailure{}));
  REQUIRE(got);
  CHECK_FALSE(got->step);
  CHECK_FALSE(got->first.out_of_memory);
  CHECK_FALSE(got->first.record);
  CHECK_FALSE(got->when_asked_to_stop);
  CHECK(got->last_lines.empty());
}

TEST_CASE("a worker's text in an unknown encoding can be sent all the same", "[failure]") {
  WorkerFailure failure;
  failure.last_lines = {"\xff\xfe latin-1: \xe4"};
  const auto got = worker_failure_in(to_json(failure));
  REQUIRE(got);
  CHECK(got->last_lines.at(0).find("latin-1") != std::string::npos);
}

TEST_CASE("a text that is not a failure is recognised", "[failure]") {
  for (const std::string text :
       {"", "{", "[]", "null", "{}", "{\"rank\": 1}", "\xff", R"({"rank": "three"})"}) {
    CAPTURE(text);
    CHECK_FALSE(failure_from_json(text));
  }
  std::string text = to_json(sample());
  text.resize(text.size() / 2);
  CHECK_FALSE(failure_from_json(text));
}

TEST_CASE("the first worker that is reaped is the cause, but a death by signal comes first",
          "[verdict]") {
  CHECK(cause_of({failed(2, When::kFirst), failed(0, When::kFirst)}) == 2);
  CHECK(cause_of({failed(2, When::kFirst), killed(1, When::kFirst)}) == 1);
  CHECK(cause_of({failed(2, When::kFirst), killed(1, When::kBefore)}) == 2);
  CHECK(cause_of({failed(2, When::kFirst), killed(1, When::kAfter)}) == 2);
  const Ending well{.rank = 5, .pid = 105, .status = 0, .when = When::kFirst};
  CHECK(cause_of({well, failed(2, When::kFirst)}) == 2);
}

TEST_CASE("a worker that blames a peer is not named as the cause", "[verdict]") {
  const Ending victim = recorded(failed(0, When::kFirst), true);
  const Ending aborted_victim = recorded(killed(0, When::kFirst), true);
  CHECK(cause_of({victim, failed(1, When::kFirst)}) == 1);
  CHECK(cause_of({aborted_victim, failed(1, When::kFirst)}) == 1);
  CHECK(cause_of({victim, failed(1, When::kBefore)}) == 1);
  CHECK(cause_of({victim, recorded(failed(2, When::kBefore), true), killed(1, When::kBefore)}) ==
        1);
  // It ended late, but recorded its error before we stopped it.
  CHECK(cause_of({victim, killed(1, When::kAfter), recorded(killed(2, When::kAfter), false)}) == 2);
}

TEST_CASE("of several records that do not speak of peers, the oldest counts", "[verdict]") {
  const auto recorded_at = [](Ending ending, int seconds) {
    ending = recorded(ending, false);
    ending.recorded_at = std::filesystem::file_time_type(std::chrono::seconds(seconds));
    return ending;
  };
  for (const When when : {When::kFirst, When::kBefore, When::kAfter}) {
    CHECK(cause_of({recorded_at(failed(0, When::kFirst), 7), recorded_at(failed(1, when), 6),
                    recorded_at(failed(2, when), 8)}) == 1);
  }
  CHECK(cause_of({failed(0, When::kFirst), recorded_at(failed(1, When::kAfter), 6)}) == 0);
}

TEST_CASE("if all workers blame a peer, the first of them is named", "[verdict]") {
  CHECK(cause_of({recorded(failed(1, When::kFirst), true), recorded(failed(0, When::kFirst), true),
                  killed(2, When::kAfter)}) == 1);
}

TEST_CASE("the reason of an abort is found in the last lines of stderr", "[verdict]") {
  using Lines = std::vector<std::string>;
  CHECK(abort_message(
            Lines{"epoch 1", "terminate called after throwing an instance of 'std::runtime_error'",
                  "  what():  no 'x'", "second line of what"}) == "std::runtime_error: no 'x'");
  CHECK(abort_message(Lines{"terminate called after throwing an instance of 'int'", "Aborted"}) ==
        "threw an exception of type int");
  CHECK(abort_message(Lines{"libc++abi: terminating due to uncaught exception of type "
                            "std::runtime_error: no x"}) == "std::runtime_error: no x");
  CHECK(abort_message(Lines{"libc++abi: terminating due to uncaught exception of type int"}) ==
        "threw an exception of type int");
  CHECK(abort_message(Lines{"train: train.cpp:57: int main(): Assertion `n > 0' failed."}) ==
        "train: train.cpp:57: int main(): Assertion `n > 0' failed.");
  CHECK(abort_message(Lines{"  what():  of a child's", "Aborted"}).empty());
  CHECK(abort_message(Lines{"terminate called after throwing an instance of 'E'", "  what():  old",
                            "free(): invalid pointer"}) == "free(): invalid pointer");
  CHECK(abort_message({}).empty());
}

TEST_CASE("the verdict is one sentence with everything that is known", "[verdict]") {
  WorkerFailure failure;
  failure.first = {.rank = 3, .pid = 4711, .status = W_EXITCODE(7, 0)};
  failure.after = std::chrono::duration<double>(12.34);
  CHECK(verdict(failure) == "rank 3 (pid 4711) exited with code 7 after 12.3 s");
  failure.others = 1;
  failure.first.record = {.message = "cannot open x:\nno such file\n"};
  CHECK(verdict(failure) ==
        "rank 3 (pid 4711) exited with code 7 after 12.3 s: cannot open x: no such file; 1 other "
        "rank stopped because of it");
  failure.alike = 2;
  CHECK_THAT(verdict(failure), Catch::EndsWith("no such file; 2 other ranks failed alike; 1 other "
                                               "rank stopped because of it"));
  failure.first.record = {.message = "sizes differ\nException raised from meta at a.cpp:1\n#0: f"};
  CHECK_THAT(verdict(failure), Catch::Contains(" s: sizes differ; 2 other ranks"));
  failure = sample();
  failure.first.record.reset();
  failure.finished.clear();
  failure.alike = 0;
  CHECK(verdict(failure) ==
        "rank 3 (node-b, pid 4711) was killed by SIGKILL after 12.5 s, when asked to stop, in step "
        "457: out of memory (61.0 GiB resident, limit 64.0 GiB); a hint; 7 other ranks stopped "
        "because of it");
  failure.first.out_of_memory = {.resident_bytes = 100 << 20};
  CHECK_THAT(verdict(failure), Catch::Contains(": out of memory (100 MiB resident); a hint; 7"));
}

TEST_CASE("the verdict of a rank that misses others names those that had finished", "[verdict]") {
  WorkerFailure failure;
  failure.first = {.rank = 0, .pid = 4711, .status = W_EXITCODE(1, 0)};
  failure.first.record = {.message = "rank 1 left the group", .caused_by_peer = true};
  failure.finished = {{1, 5}};
  failure.others = 1;
  CHECK(verdict(failure) ==
        "rank 0 (pid 4711) exited with code 1 after 0.0 s: rank 1 left the group; rank 1 had ended "
        "with code 0 (last step: 5); 1 other rank stopped because of it");
  failure.finished = {{1, 5}, {2, 5}, {3, 5}, {4, 6}, {5, std::nullopt}};
  CHECK_THAT(
      verdict(failure),
      Catch::Contains("; rank 5 had ended with code 0; ranks 1-3 had ended with code 0 (last step: "
                      "5); rank 4 had ended with code 0 (last step: 6); 1 other rank"));
}

TEST_CASE("a long message is cut between two characters", "[verdict]") {
  WorkerFailure failure;
  failure.first.status = W_EXITCODE(1, 0);
  failure.first.record.emplace();
  for (int i = 0; i < 400; ++i) failure.first.record->message += "€";
  const std::string text = verdict(failure);
  CHECK(text.size() < 1100);
  CHECK(text.ends_with("€..."));
}

TEST_CASE("a verdict cannot control the terminal", "[verdict]") {
  WorkerFailure failure;
  failure.first.status = W_EXITCODE(1, 0);
  failure.first.record = {.message =
                              "a\x1b[2J\x7f\u009b31m\u202e\u2066"
                              "b\r\nddp-launch: ü \x9b."};
  failure.host = "host\x1b";
  failure.frames = {"f\x1b()"};
  CHECK_THAT(said(failure), Catch::Contains("(host , pid 0)") &&
                                Catch::Contains(": a [2J  31m  b  ddp-launch: ü \ufffd.") &&
                                Catch::Contains("at f ()"));
  CHECK_THAT(said(NodeFailure{"lost\x1b"}), Catch::EndsWith("lost \n"));
}

TEST_CASE("the last words are the tail of stderr, its file, and the verdict", "[verdict]") {
  WorkerFailure failure;
  failure.first = {.rank = 3, .pid = 4711, .status = W_EXITCODE(7, 0)};
  failure.last_lines = {"Traceback", "ValueError: no"};
  failure.log_file = "/logs/3/stderr.log";
  const std::string sentence = "ddp-launch: rank 3 (pid 4711) exited with code 7 after 0.0 s\n";
  const std::string file = "ddp-launch: all of rank 3's stderr: /logs/3/stderr.log\n";
  CHECK(said(failure) ==
        "ddp-launch: last stderr lines of rank 3:\n  Traceback\n  ValueError: no\n" + file +
            sentence);
  failure.lines_are_in_view = true;
  CHECK(said(failure) == file + sentence);
  failure.log_file = "";
  CHECK(said(failure) == sentence);
}

TEST_CASE("a death by SIGBUS is explained by a full or small /dev/shm", "[verdict]") {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  CHECK(bus_error_hint({1000 * kMebibyte, 1 * kMebibyte}) ==
        "/dev/shm is full (1 of 1000 MiB free); in a container give it more, such as docker run "
        "--shm-size=8g");
  CHECK_THAT(bus_error_hint({64 * kMebibyte, 60 * kMebibyte}),
             Catch::StartsWith("/dev/shm is small (60 of 64 MiB free)"));
  CHECK(bus_error_hint({1000 * kMebibyte, 500 * kMebibyte}).empty());
  CHECK(bus_error_hint({0, 0}).empty());
}
