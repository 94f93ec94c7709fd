// SPDX-License-Identifier: MIT
//
// Checkpoints that are written in the background, and processes that are killed meanwhile.
#include "ddp/io/checkpoint_writer.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/system/process_status.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/directory_lock.h"
#include "soak/checkpoint_kills.h"
#include "support/checkpoints.h"
#include "support/files.h"
#include "support/grouping_locale.h"
#include "support/in_child.h"
#include "support/run_ranks.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::buffer_of;
using ddp::CheckpointDirectory;
using ddp::CheckpointDirectoryOptions;
using ddp::CheckpointName;
using ddp::NamedBuffer;
using ddp::test::after_epoch;
using ddp::test::entries_of;
using ddp::test::error_of;
using ddp::test::newest_value;
using ddp::test::TemporaryDirectory;
using ddp::test::value_in;
using Model = ddp::test::OneTensorModel;

TEST_CASE("a background save contains the values at its start", "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  {
    ddp::CheckpointWriter writer(checkpoints);
    std::vector<float> values = {1, 1};
    const NamedBuffer tensor{"w", {2}, buffer_of(values)};
    writer.save({.name = after_epoch(1), .metadata = {}}, {&tensor, 1});
    values = {2, 2};
    writer.save({.name = after_epoch(2), .metadata = {}}, {&tensor, 1});
    values = {3, 3};
  }
  CHECK(value_in(directory / "model_epoch_1.safetensors") == 1);
  CHECK(newest_value(directory.path()) == 2);
}

// The lock is the fork's, too, and bears the pid of the process that has ended.
TEST_CASE("a fork that keeps a directory locked is not taken for its parent",
          "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(ends[1]);
    const ddp::DirectoryLock lock(directory.path());
    char end = 0;
    if (::fork() == 0) (void)!::read(ends[0], &end, 1);  // until the test closes the pipe
    ::_exit(0);
  }
  ::close(ends[0]);
  REQUIRE(ddp::wait_for_child(parent) == 0);
  CHECK_THAT(error_of([&] { const ddp::DirectoryLock another(directory.path()); }),
             Contains("a process that pid " + std::to_string(parent) +
                      ", which has ended, had forked is writing there"));
  ::close(ends[1]);
}

TEST_CASE("a writer in a fork is refused", "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  ddp::CheckpointWriter writer(checkpoints);
  Model model(1);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string saved =
        error_of([&] { writer.save({.name = after_epoch(1), .metadata = {}}, model.tensors()); });
    const std::string finished = error_of([&] { writer.finish(); });
    const std::string expected = "[checkpoint] the CheckpointWriter belongs to process " +
                                 std::to_string(parent) + "; this process is a fork of it";
    ::_exit(saved == expected && finished == expected ? 0 : 1);
  }
  CHECK(ddp::wait_for_child(child) == 0);
}

// `rm -rf` of the directory of a job that was forgotten, and a new one there.
TEST_CASE("a directory that was replaced under a writer is not written", "[checkpoint][writer]") {
  const TemporaryDirectory folder;
  const fs::path path = folder / "checkpoints";
  Model model(1);
  CheckpointDirectory forgotten({.path = path});
  ddp::CheckpointWriter first(forgotten);
  fs::remove_all(path);
  const auto error_of_save = [&](int epoch) {
    return error_of([&] {
      first.save({.name = after_epoch(epoch), .metadata = {}}, model.tensors());
      first.finish();
    });
  };
  CHECK_THAT(error_of_save(1), Contains("model_epoch_1.safetensors was not saved: ") &&
                                   Contains("the directory or its .lock was removed or replaced"));
  CheckpointDirectory now({.path = path});
  ddp::CheckpointWriter second(now);
  CHECK_THAT(error_of_save(2), Contains("model_epoch_2.safetensors was not saved: "));
  second.save({.name = after_epoch(3), .metadata = {}}, model.tensors());
  second.finish();
  CHECK(entries_of(path) == 3);  // .lock, latest and the checkpoint
}

TEST_CASE("only one training at a time can save to a directory", "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  CheckpointDirectory first({.path = directory.path()});
  CheckpointDirectory second({.path = directory.path()});
  {
    const ddp::CheckpointWriter writer(first);
    const ddp::test::GroupingLocale locale;
    CHECK_THAT(error_of([&] { const ddp::CheckpointWriter another(second); }),
               Contains(directory.path().string() + ": " + ddp::describe_process(::getpid()) +
                        " is writing there: another job, or another rank of this one"));
  }
  const ddp::CheckpointWriter writer(second);
  CHECK(entries_of(directory.path()) == 1);  // .lock
}

// As `cp -al` makes them.
TEST_CASE("a directory that shares its lock with another one says so", "[checkpoint][writer]") {
  const TemporaryDirectory parent;
  CheckpointDirectory original({.path = parent / "a"}), copy({.path = parent / "b"});
  const auto complaint = [&] {
    return error_of([&] { const ddp::CheckpointWriter another(copy); });
  };
  ddp::CheckpointWriter writer(original);
  CHECK(complaint().empty());
  fs::remove(parent / "b/.lock");
  fs::create_hard_link(parent / "a/.lock", parent / "b/.lock");
  CHECK_THAT(complaint(), Contains("is writing there: ") &&
                              Contains("whose .lock is the same file (it has 2 names, as after cp "
                                       "-al): then remove the .lock of the directory where no job "
                                       "runs"));
  fs::remove(parent / "b/.lock");  // as it says
  CHECK(complaint().empty());
  Model model(1);
  writer.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  writer.finish();
}

TEST_CASE("what another training saved before it gave the directory up is not missed",
          "[checkpoint][writer]") {
  const TemporaryDirectory directory;
  const CheckpointDirectoryOptions options{.path = directory.path(), .keep = 2};
  Model model(1);
  CheckpointDirectory ending(options);
  ending.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  CheckpointDirectory early(options), late(options);
  REQUIRE(early.load_newest()->path.filename() == "model_epoch_1.safetensors");
  ending.save({.name = after_epoch(2), .metadata = {}}, model.tensors());
  CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(early); }),
             Contains(directory.path().string() + ": another process has saved there since this "
                                                  "one loaded its checkpoint"));
  ddp::CheckpointWriter writer(late);
  CHECK(late.load_newest()->path.filename() == "model_epoch_2.safetensors");
  writer.save({.name = after_epoch(3), .metadata = {}}, model.tensors());
  writer.finish();
  CHECK(late.names() == std::vector<CheckpointName>{after_epoch(3), after_epoch(2)});
}

TEST_CASE("a writer reports at once that it cannot create files", "[checkpoint][writer][disk]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  fs::permissions(parent / "directory", fs::perms::owner_read | fs::perms::owner_exec);
  const bool is_root = geteuid() == 0;  // root may write everywhere
  if (is_root) fs::remove(parent / "directory");
  CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(checkpoints); }),
             Contains((parent / "directory").string()) && !Contains("probe"));
  if (is_root) {
    CheckpointDirectory read_only({.path = "/proc/self"});
    CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(read_only); }),
               Contains("/proc/self: no file can be made there: ") && !Contains("probe"));
  }
}

TEST_CASE("a writer reports at once that a checkpoint's path would be too long",
          "[checkpoint][writer][disk]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(to_string(CheckpointName{.epochs = kMost, .step = kMost}).size() ==
        ddp::kDirectoryProbeName.size());
  const TemporaryDirectory parent;
  constexpr std::size_t kLength = PATH_MAX - 1 - 45;  // room for `latest`, also while it is written
  std::string path = parent.path();
  while (path.size() + 1 < kLength) {
    path += "/" + std::string(std::min<std::size_t>(kLength - path.size() - 1, 200), 'd');
  }
  CheckpointDirectory checkpoints({.path = path});
  CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(checkpoints); }),
             Contains(": no file can be made there: ") && Contains("File name too long"));
}

TEST_CASE("a writer reports at once that another user's list cannot be replaced",
          "[checkpoint][writer][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  Model model(1);
  checkpoints.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  fs::permissions(directory.path(), fs::perms::all | fs::perms::sticky_bit);
  ddp::test::check_in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() != 0 || ::setuid(kNobody) != 0) return ddp::test::Verdict::kImpossible;
    const std::string error = error_of([&] { const ddp::CheckpointWriter writer(checkpoints); });
    const bool is_good = error.find("latest: cannot replace: it is another user's") != error.npos;
    return is_good ? ddp::test::Verdict::kGood : ddp::test::Verdict::kBad;
  });
  fs::remove(directory / ".lock");
  CHECK(error_of([&] { const ddp::CheckpointWriter writer(checkpoints); }).empty());
}

TEST_CASE("a writer whose lock cannot be opened names that file", "[checkpoint][writer][disk]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  fs::create_directory(parent / "directory/.lock");
  CHECK_THAT(error_of([&] { const ddp::CheckpointWriter writer(checkpoints); }),
             Contains("directory: .lock cannot be opened: Is a directory"));
}

TEST_CASE("a background error is visible without waiting", "[checkpoint][writer]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  ddp::CheckpointWriter writer(checkpoints);
  Model model(1);
  writer.check();
  fs::remove_all(parent / "directory");
  writer.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  std::string error;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (error.empty() && std::chrono::steady_clock::now() < deadline) {
    error = error_of([&] { writer.check(); });
    std::this_thread::yield();
  }
  CHECK_THAT(error, Contains("model_epoch_1.safetensors"));
  writer.check();  // the error is reported only once
  writer.finish();
}

TEST_CASE("an error in the background surfaces once, at the next call", "[checkpoint][writer]") {
  const TemporaryDirectory parent;
  CheckpointDirectory checkpoints({.path = parent / "directory"});
  ddp::CheckpointWriter writer(checkpoints);
  Model model(1);
  fs::remove_all(parent / "directory");
  writer.save({.name = after_epoch(1), .metadata = {}}, model.tensors());
  CHECK_THAT(
      error_of([&] { writer.save({.name = after_epoch(2), .metadata = {}}, model.tensors()); }),
      Contains("model_epoch_1.safetensors"));
  writer.finish();
  writer.save({.name = after_epoch(3), .metadata = {}}, model.tensors());
  CHECK_THAT(error_of([&] { writer.finish(); }), Contains("model_epoch_3.safetensors"));
  writer.finish();
}

// scripts/soak.sh does this 200 times.
TEST_CASE("whenever a process is killed, the newest checkpoint loads", "[checkpoint][kill]") {
  const TemporaryDirectory directory;
  CHECK(ddp::soak::kill_while_saving(directory.path(), 20).rounds == 20);
}
