// SPDX-License-Identifier: MIT
#include <pty.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "ddp/io/atomic_file.h"
#include "ddp/io/progress.h"
#include "ddp/io/sha256.h"
#include "ddp/io/trace_writer.h"
#include "support/files.h"
#include "support/in_child.h"
#include "support/run_ranks.h"
#include "support/scoped_variable.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::Buffer;
using ddp::DType;
using ddp::NamedBuffer;
using ddp::ProgressState;
using ddp::Sha256;
using ddp::test::bytes_of;
using ddp::test::entries_of;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;
using ddp::test::Verdict;

std::string digest_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.finish();
}

}  // namespace

TEST_CASE("an AtomicFile that is not committed leaves no file", "[io][disk]") {
  const TemporaryDirectory directory;
  const std::string text = "half";
  {
    ddp::AtomicFile first(directory / "file");
    ddp::AtomicFile second(directory / "file");
    first.write(std::as_bytes(std::span(text)));
    CHECK_FALSE(fs::exists(directory / "file"));
    CHECK(entries_of(directory.path()) == 2);
    second.write(std::as_bytes(std::span(text)));
    second.commit();
  }
  CHECK(entries_of(directory.path()) == 1);
  CHECK(bytes_of(directory / "file") == "half");
}

TEST_CASE("a complete file that cannot get its name is not lost", "[io][disk]") {
  const TemporaryDirectory directory;
  const std::string text = "a model";
  ddp::AtomicFile file(directory / "file");
  file.write(std::as_bytes(std::span(text)));
  fs::create_directory(directory / "file");
  const std::string error = error_of([&] { file.commit(); });
  const std::string name = "file.tmp." + std::to_string(::getpid());
  CHECK_THAT(error, Contains("cannot give this name to ") && Contains(name) &&
                        Contains(", which is complete: Is a directory"));
  const std::size_t begin = error.find(directory.path().string(), error.find(" to "));
  CHECK(bytes_of(error.substr(begin, error.find(", which") - begin)) == text);
}

TEST_CASE("a mounted file, which cannot be replaced, is an error before it is written",
          "[io][disk]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  ddp::test::write_bytes(path, "old");
  ddp::test::check_in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) return Verdict::kImpossible;
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return Verdict::kImpossible;
    }
    const std::string error = error_of([&] { const ddp::AtomicFile file(path); });
    const bool is_told = error.find("cannot replace: it is mounted; mount its") != error.npos;
    return is_told ? Verdict::kGood : Verdict::kBad;
  });
}

TEST_CASE("a directory that may be written but not read can have files", "[io][disk]") {
  const TemporaryDirectory directory;
  const fs::path folder = directory / "folder";
  fs::create_directory(folder);
  fs::permissions(directory.path(), fs::perms::all);
  fs::permissions(folder, fs::perms::owner_write | fs::perms::owner_exec);
  ddp::test::check_in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 &&
        (::chown(folder.c_str(), kNobody, kNobody) != 0 || ::setuid(kNobody) != 0)) {
      return Verdict::kImpossible;
    }
    const std::string error = error_of([&] {
      ddp::AtomicFile file(folder / "file");
      file.commit();
    });
    return error.empty() && fs::exists(folder / "file") ? Verdict::kGood : Verdict::kBad;
  });
}

// Without locks, the files of killed processes stay, and in a container each may have this pid.
TEST_CASE("an AtomicFile finds a name among those of any number of killed processes",
          "[io][disk]") {
  const TemporaryDirectory directory;
  constexpr int kKilled = 200;
  for (int i = 0; i < kKilled; ++i) {
    const std::string mark = ".tmp." + std::to_string(::getpid()) + "." + std::to_string(i);
    ddp::test::write_bytes(directory / ("file" + mark), "");
    ddp::test::write_bytes(directory / ("other" + mark), "");
  }
  ddp::AtomicFile file(directory / "file");
  file.commit();
  CHECK(ddp::link_atomically(directory / "file", directory / "other"));
  CHECK(entries_of(directory.path()) == 2 * kKilled + 2);
}

TEST_CASE("an AtomicFile that is being written is not taken for an orphan", "[io][disk]") {
  const TemporaryDirectory directory;
  ddp::AtomicFile file(directory / "file");
  ddp::test::check_in_child([&] {
    ddp::remove_orphaned_temporaries(directory.path(), [](std::string_view) { return true; });
    return entries_of(directory.path()) == 1 ? ddp::test::Verdict::kGood : ddp::test::Verdict::kBad;
  });
  file.commit();
  CHECK(entries_of(directory.path()) == 1);
}

TEST_CASE("SHA-256 gives the standard's digests", "[io][sha256]") {
  CHECK(digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest_of(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on the pieces of the message", "[io][sha256]") {
  for (std::size_t size = 0; size <= 130; ++size) {
    const std::string text(size, 'x');
    Sha256 pieces;
    for (std::size_t at = 0; at < size; at += 7) {
      pieces.update(
          std::as_bytes(std::span(text)).subspan(at, std::min<std::size_t>(7, size - at)));
    }
    REQUIRE(pieces.finish() == digest_of(text));
  }
}

TEST_CASE("tensors are hashed as their bytes, in order", "[io][sha256]") {
  std::vector<std::uint8_t> ab = {'a', 'b'};
  std::vector<std::uint8_t> c = {'c'};
  const NamedBuffer tensors[] = {{"x", {2}, ddp::buffer_of(ab)}, {"y", {1}, ddp::buffer_of(c)}};
  CHECK(ddp::sha256(tensors) == digest_of("abc"));
  const NamedBuffer on_device[] = {
      {"x", {1}, Buffer{ab.data(), 1, DType::kUInt8, ddp::cuda_device(0)}}};
  CHECK_THROWS_AS(ddp::sha256(on_device), std::invalid_argument);
}

TEST_CASE("progress is formatted as a bar and as a line", "[io][progress]") {
  ProgressState state{
      .epoch = 0, .epochs = 5, .step = 0, .steps = 40, .loss = 2.30259, .samples_per_second = 0};
  CHECK(format_progress_line(state) == "epoch 1/5 step 0/40 loss 2.3026 0 samples/s ETA -:--");
  state.step = 10;
  state.samples_per_second = 12345.4;
  state.elapsed = std::chrono::seconds(30);
  CHECK(format_progress_bar(state) ==
        "epoch 1/5 [=====>              ] 10/40 loss 2.3026 12345 samples/s ETA 1:30");
  state.skipped = 5;  // the other five took the thirty seconds
  CHECK_THAT(format_progress_line(state), Contains("step 10/40") && Contains("ETA 3:00"));
  state.skipped = 0;
  state.score = 0.8512;
  CHECK(format_progress_line(state) ==
        "epoch 1/5 step 10/40 loss 2.3026 accuracy 85.1 % 12345 samples/s ETA 1:30");
  state.score = std::nullopt;
  state.elapsed = std::chrono::hours(1);
  CHECK(format_progress_line(state) ==
        "epoch 1/5 step 10/40 loss 2.3026 12345 samples/s ETA 3:00:00");
  state.step = 40;
  CHECK_THAT(format_progress_bar(state),
             Contains("[====================] 40/40") && Contains("ETA 0:00"));
}

TEST_CASE("a loss that diverges does not fill the screen", "[io][progress]") {
  CHECK(ddp::format_loss(0.43214) == "0.4321");
  CHECK(ddp::format_loss(-2) == "-2.0000");
  CHECK(ddp::format_loss(999999.5) == "999999.5000");
  CHECK(ddp::format_loss(1e6) == "1.0000e+06");
  CHECK(ddp::format_loss(-1.5505844e200) == "-1.5506e+200");
  CHECK(ddp::format_loss(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(ddp::format_loss(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  const ddp::ProgressState state{.loss = 1e300};
  CHECK_THAT(ddp::format_progress_line(state), Catch::Contains(" loss 1.0000e+300 "));
}

TEST_CASE("a progress bar that stops early keeps its line", "[io][progress]") {
  std::string shown;
  ddp::Progress progress({.style = ddp::ProgressStyle::kBar},
                         [&](std::string_view text) { shown += text; });
  progress.end_line();
  CHECK(shown.empty());
  progress.update({.epochs = 1, .step = 1, .steps = 2});
  progress.end_line();
  progress.end_line();
  CHECK_THAT(shown, Catch::EndsWith("\n") && !Catch::EndsWith("\n\n"));
}

TEST_CASE("a launcher's terminal counts as a terminal", "[io][progress]") {
  {
    const ddp::test::ScopedVariable is_terminal("DDP_LAUNCH_TTY", "/dev/pts/7");
    CHECK(ddp::progress_style_of_stdout() == ddp::ProgressStyle::kBar);
  }
  const ddp::test::ScopedVariable is_none("DDP_LAUNCH_TTY", "");
  CHECK(ddp::progress_style_of_stdout() ==
        (isatty(STDOUT_FILENO) != 0 ? ddp::ProgressStyle::kBar : ddp::ProgressStyle::kLines));
}

TEST_CASE("a progress bar is as wide as the launcher's terminal", "[io][progress]") {
  if (isatty(STDOUT_FILENO) != 0) return;  // which would count in its place
  int master = -1, terminal = -1;
  winsize size{.ws_row = 9, .ws_col = 47, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(openpty(&master, &terminal, nullptr, nullptr, &size) == 0);
  const ddp::FileDescriptor owned_master(master), owned_terminal(terminal);
  const ddp::test::ScopedVariable path("DDP_LAUNCH_TTY", ttyname(terminal));
  CHECK(ddp::terminal_columns() == 47);
  const ddp::test::ScopedVariable none("DDP_LAUNCH_TTY", "");
  CHECK(ddp::terminal_columns() == 0);
}

TEST_CASE("a progress bar stays on one line of a narrow terminal", "[io][progress]") {
  std::string text;
  std::size_t columns = 80;
  ddp::Progress progress({.style = ddp::ProgressStyle::kBar, .columns = [&] { return columns; }},
                         [&](std::string_view part) { text = part; });
  const ProgressState state{.epochs = 20,
                            .step = 180,
                            .steps = 469,
                            .loss = 0.5584,
                            .score = 0.806,
                            .samples_per_second = 13773};
  const ddp::Clock::time_point start{};
  progress.update(state, start);
  CHECK(text == '\r' + format_progress_line(state));  // 76 characters; with the bar there are 93
  columns = 40;
  progress.update(state, start + std::chrono::seconds(1));
  CHECK(text == '\r' + format_progress_line(state).substr(0, 39));
  columns = 120;
  progress.update(state, start + std::chrono::seconds(2));
  CHECK(text == '\r' + format_progress_bar(state));
}

TEST_CASE("in a pipe, progress is a line every few steps and at the end", "[io][progress]") {
  std::string shown;
  ddp::Progress progress({.style = ddp::ProgressStyle::kLines, .log_every = 3},
                         [&](std::string_view text) { shown += text; });
  for (std::int64_t step = 1; step <= 7; ++step) progress.update({.step = step, .steps = 7});
  CHECK(std::count(shown.begin(), shown.end(), '\n') == 3);
  CHECK_THAT(shown, Contains("step 3/7") && Contains("step 6/7") && Contains("step 7/7"));
  CHECK(shown.find('\r') == std::string::npos);
}

TEST_CASE("in a pipe, progress does not depend on which steps are shown", "[io][progress]") {
  std::string shown;
  ddp::Progress progress({.style = ddp::ProgressStyle::kLines, .log_every = 100},
                         [&](std::string_view text) { shown += text; });
  const auto show = [&](int epoch, std::int64_t step) {
    progress.update(
        {.epoch = epoch, .epochs = 2, .step = step, .steps = 500, .skipped = epoch == 0 ? 142 : 0});
  };
  for (const std::int64_t step : {180, 243, 350, 455}) show(0, step);  // resumed behind step 142
  for (const std::int64_t step : {105, 210, 250}) show(1, step);
  CHECK(std::count(shown.begin(), shown.end(), '\n') == 5);
  CHECK_THAT(shown, Contains("epoch 1/2 step 243/500") && Contains("step 350/500") &&
                        Contains("step 455/500") && Contains("epoch 2/2 step 210/500"));
}

TEST_CASE("on a terminal, progress is redrawn in place, not too often", "[io][progress]") {
  std::vector<std::string> shown;
  ddp::Progress progress({.style = ddp::ProgressStyle::kBar},
                         [&](std::string_view text) { shown.emplace_back(text); });
  const ddp::Clock::time_point start{};
  progress.update({.step = 1, .steps = 9, .loss = 1000}, start);
  progress.update({.step = 2, .steps = 9}, start + std::chrono::milliseconds(50));
  progress.update({.step = 3, .steps = 9}, start + std::chrono::milliseconds(100));
  progress.update({.step = 9, .steps = 9}, start + std::chrono::milliseconds(101));
  REQUIRE(shown.size() == 3);
  CHECK(shown[0].front() == '\r');
  CHECK(shown[1].size() == shown[0].size());  // the shorter text wipes the longer one
  CHECK(shown[2].back() == '\n');
}

TEST_CASE("a trace is one JSON array of events in microseconds", "[io][trace]") {
  using namespace std::chrono_literals;
  const TemporaryDirectory directory;
  const ddp::Clock::time_point begin = ddp::Clock::now();
  {
    ddp::TraceWriter trace(directory / "trace.json");
    trace.start_at(begin - 2ms);
    trace.add_process(3, "rank 3", "on rank 0's clock");
    const auto compute = trace.add_lane(3, "compute");
    const auto communication = trace.add_lane(3, "communication");
    CHECK(compute.number != communication.number);
    trace.span(communication, "bucket \"0\"", {begin, begin + 1500us},
               {{"bytes", std::int64_t{7}}});
  }
  const auto events = nlohmann::json::parse(bytes_of(directory / "trace.json"));
  const auto& span = events.back();
  CHECK(span["name"] == "bucket \"0\"");
  CHECK(span["ph"] == "X");
  CHECK(span["ts"] == 2000.0);
  CHECK(span["dur"] == 1500.0);
  CHECK(span["pid"] == 3);
  CHECK(span["args"]["bytes"] == 7);
  const auto lane_name = std::ranges::find_if(events, [&](const auto& event) {
    return event["name"] == "thread_name" && event["tid"] == span["tid"];
  });
  REQUIRE(lane_name != events.end());
  CHECK((*lane_name)["args"]["name"] == "communication");
  CHECK(events[0]["args"]["name"] == "rank 3");
}

TEST_CASE("a trace that is finished stays valid", "[io][trace]") {
  const TemporaryDirectory directory;
  ddp::TraceWriter trace(directory / "trace.json");
  const ddp::Clock::time_point now = ddp::Clock::now();
  trace.finish();
  const std::string long_name(1000, 'x');
  for (int i = 0; i < 200; ++i) trace.span({}, long_name, {now, now});
  CHECK(nlohmann::json::parse(bytes_of(directory / "trace.json")).empty());
}

TEST_CASE("a trace without events is an empty array", "[io][trace]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "trace.json";
  ddp::test::write_bytes(path, "an older one");
  { const ddp::TraceWriter of_a_failed_start(path); }
  CHECK(bytes_of(path) == "an older one");
  ddp::TraceWriter trace(path);
  trace.finish();
  CHECK(nlohmann::json::parse(bytes_of(path)).empty());
}

TEST_CASE("a full disk under the trace does not end the training", "[io][trace]") {
  ddp::TraceWriter trace("/dev/full");
  const auto lane = trace.add_lane(0, "compute");
  const ddp::Clock::time_point now = ddp::Clock::now();
  for (int i = 0; i < 2000; ++i) trace.span(lane, "step", {now, now});
  CHECK_FALSE(error_of([] { ddp::TraceWriter("/no/such/trace"); }).empty());
}
