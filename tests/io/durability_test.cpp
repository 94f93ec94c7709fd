// SPDX-License-Identifier: MIT
//
// The order of the calls that make a checkpoint survive a loss of power, and what happens if the
// disk fails when it is flushed. This program overrides the system's functions to record them.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

namespace {

namespace fs = std::filesystem;
using Calls = std::vector<std::string>;
using Catch::Matchers::Contains;
using ddp::CheckpointDirectory;
using ddp::test::bytes_of;
using ddp::test::entries_of;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;

Calls* record = nullptr;          // where calls go, if anywhere
std::string fails_to_flush = "";  // fsync of files with this in their names fails
int fails_to_lock = 0;            // the error of flock
int fails_to_link = 0;            // the error of link

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The last part of a path without process and attempt: "latest.tmp".
std::string short_name(const fs::path& path) {
  std::string name = path.filename().string();
  const std::size_t mark = name.find(".tmp.");
  return mark == std::string::npos ? name : name.substr(0, mark + 4);
}

std::string name_of(int fd) {
  std::error_code ignored;
  return short_name(fs::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored));
}

void add(const std::string& call) {
  if (record != nullptr) record->push_back(call);
}

// Records the calls as long as this object exists.
class Recording {
 public:
  Recording() { record = &calls; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { record = nullptr; }

  Calls calls;
};

// A file system without locks, which says so by this error.
class NoLocks {
 public:
  explicit NoLocks(int error) { fails_to_lock = error; }
  NoLocks(const NoLocks&) = delete;
  NoLocks& operator=(const NoLocks&) = delete;
  ~NoLocks() { fails_to_lock = 0; }
};

class NoLinks {
 public:
  explicit NoLinks(int error) { fails_to_link = error; }
  NoLinks(const NoLinks&) = delete;
  NoLinks& operator=(const NoLinks&) = delete;
  ~NoLinks() { fails_to_link = 0; }
};

class FailingFlush {
 public:
  explicit FailingFlush(const std::string& name) { fails_to_flush = name; }
  FailingFlush(const FailingFlush&) = delete;
  FailingFlush& operator=(const FailingFlush&) = delete;
  ~FailingFlush() { fails_to_flush.clear(); }
};

void save(CheckpointDirectory& directory, std::int64_t epochs, bool is_best = false) {
  std::vector<float> values = {static_cast<float>(epochs)};
  const ddp::NamedBuffer tensor{"w", {1}, ddp::buffer_of(values)};
  directory.save({.name = {.epochs = epochs}, .metadata = {}, .is_best = is_best}, {&tensor, 1});
}

// The newest checkpoint's epoch according to a process that starts now.
float newest_epoch(const fs::path& path) {
  CheckpointDirectory directory({.path = path});
  const auto loaded = directory.load_newest().value();
  return *static_cast<const float*>(loaded.content.tensors.at(0).buffer.data);
}

}  // namespace

int fsync(int fd) {
  const std::string name = name_of(fd);
  add("fsync " + name);
  if (!fails_to_flush.empty() && name.find(fails_to_flush) != std::string::npos) {
    errno = EIO;
    return -1;
  }
  return next(&fsync, "fsync")(fd);
}

int flock(int fd, int operation) noexcept {
  if (fails_to_lock == 0) return next(&flock, "flock")(fd, operation);
  errno = fails_to_lock;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  add("rename " + short_name(from) + " " + short_name(to));
  return next(&rename, "rename")(from, to);
}

int link(const char* from, const char* to) noexcept {
  if (fails_to_link != 0) {
    errno = fails_to_link;
    return -1;
  }
  add("link " + short_name(from) + " " + short_name(to));
  return next(&link, "link")(from, to);
}

int unlink(const char* path) noexcept {
  const int result = next(&unlink, "unlink")(path);
  if (result == 0) add("unlink " + short_name(path));
  return result;
}

int remove(const char* path) noexcept {  // which std::filesystem::remove calls
  const int result = next(&remove, "remove")(path);
  if (result == 0) add("unlink " + short_name(path));
  return result;
}

TEST_CASE(
    "a checkpoint and the list are flushed before and after they get their names, and only "
    "then is an old one removed",
    "[durability]") {
  const TemporaryDirectory place;
  const std::string here = place.path().filename().string();
  CheckpointDirectory directory({.path = place.path(), .keep = 1});
  save(directory, 1);
  Recording recording;
  save(directory, 2);
  const Calls list = {"fsync latest.tmp", "rename latest.tmp latest", "fsync " + here};
  Calls expected = {
      "fsync model_epoch_2.safetensors.tmp",
      "rename model_epoch_2.safetensors.tmp model_epoch_2.safetensors",
      "fsync " + here,
  };
  expected.insert(expected.end(), list.begin(), list.end());
  expected.emplace_back("unlink model_epoch_1.safetensors");
  expected.insert(expected.end(), list.begin(), list.end());
  CHECK(recording.calls == expected);
}

TEST_CASE("the best checkpoint gets its second name before the list is written", "[durability]") {
  const TemporaryDirectory place;
  const std::string here = place.path().filename().string();
  CheckpointDirectory directory({.path = place.path(), .keep = 1});
  save(directory, 1, true);
  Recording recording;
  save(directory, 2, true);
  const Calls& calls = recording.calls;
  const auto at = [&](const std::string& call) { return std::ranges::find(calls, call); };
  const auto named = at("rename model_epoch_2.safetensors.tmp model_epoch_2.safetensors");
  const auto best = at("rename model_best.safetensors.tmp model_best.safetensors");
  const auto listed = at("rename latest.tmp latest");
  const auto removed = at("unlink model_epoch_1.safetensors");
  REQUIRE(removed != calls.end());
  CHECK(named < best);
  CHECK(best < listed);
  CHECK(listed < removed);
  // The directory is flushed behind all names, before the old file goes.
  CHECK(std::find(listed, removed, "fsync " + here) != removed);
}

TEST_CASE("where no hard link can be made, the best checkpoint is a copy, or its error is told",
          "[durability]") {
  constexpr int kNotSupported = 524;  // the kernel's ENOTSUPP, which some file systems return
  for (const int error : {EPERM, EIO, EXDEV, EACCES, EINVAL, ENOSPC, kNotSupported}) {
    CAPTURE(error);
    const TemporaryDirectory place;
    CheckpointDirectory directory({.path = place.path()});
    const NoLinks none(error);
    save(directory, 1, true);
    CHECK(bytes_of(place / "model_best.safetensors") ==
          bytes_of(place / "model_epoch_1.safetensors"));
    CHECK(fs::hard_link_count(place / "model_best.safetensors") == 1);
    const FailingFlush failing("model_best");
    CHECK_THAT(error_of([&] { save(directory, 2, true); }),
               Contains("model_best.safetensors: cannot flush: Input/output error"));
    CHECK(newest_epoch(place.path()) == 1);
  }
}

TEST_CASE("a disk that fails when a checkpoint is flushed is an error, and the old one remains",
          "[durability]") {
  const TemporaryDirectory place;
  CheckpointDirectory directory({.path = place.path(), .keep = 1});
  save(directory, 1, true);
  const std::string list = bytes_of(place / "latest");
  for (const char* file : {"model_epoch_2", "latest"}) {
    CAPTURE(file);
    Recording recording;
    const FailingFlush failing(std::string(file) + (*file == 'm' ? ".safetensors.tmp" : ".tmp"));
    CHECK_THAT(error_of([&] { save(directory, 2, true); }),
               Contains((place / file).string()) && Contains("cannot flush: Input/output error"));
    CHECK(bytes_of(place / "latest") == list);
    CHECK(fs::exists(place / "model_epoch_1.safetensors"));
    CHECK(std::ranges::count(recording.calls, "unlink model_epoch_1.safetensors") == 0);
    CHECK(std::ranges::count(recording.calls, "rename latest.tmp latest") == 0);
    CHECK_FALSE(fs::exists(place / "model_epoch_2.safetensors"));
  }
  CHECK(newest_epoch(place.path()) == 1);
  save(directory, 2);
  CHECK(newest_epoch(place.path()) == 2);
}

TEST_CASE(
    "a disk that fails when a directory is flushed is an error before an old checkpoint is "
    "removed",
    "[durability]") {
  const TemporaryDirectory place;
  CheckpointDirectory directory({.path = place.path(), .keep = 1});
  save(directory, 1);
  const FailingFlush failing(place.path().filename().string());
  CHECK_THAT(error_of([&] { save(directory, 2); }),
             Contains("model_epoch_2.safetensors: cannot flush the directory of: Input/output"));
  CHECK(fs::exists(place / "model_epoch_1.safetensors"));
}

// There a second job is not noticed, and nobody knows whether a temporary file is still written.
TEST_CASE("a file system without locks is warned of, and nobody's temporary file is removed there",
          "[durability]") {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    const TemporaryDirectory place;
    const std::string temporary = place / "model_epoch_1.safetensors.tmp.99999999.0";
    ddp::test::write_bytes(temporary, "half");
    const ddp::test::StderrCapture log;
    {
      const NoLocks none(error);
      CheckpointDirectory directory({.path = place.path()});
      const ddp::CheckpointWriter writer(directory);
      for (const int epochs : {1, 2}) save(directory, epochs);
    }
    CHECK_THAT(log.text(), Contains("[directory_lock] " + place.path().string() +
                                    ": this file system has no locks (" + ddp::error_text(error) +
                                    "): only one job at a time may write there, and a second one "
                                    "would not be noticed; files *.tmp.* of saves that are killed "
                                    "stay there\n"));
    CHECK(std::ranges::count(log.text(), '\n') == 1);
    CHECK(fs::exists(temporary));
    CheckpointDirectory directory({.path = place.path()});
    save(directory, 3);
    CHECK_FALSE(fs::exists(temporary));
  }
}
