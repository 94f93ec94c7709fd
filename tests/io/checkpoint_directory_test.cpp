// SPDX-License-Identifier: MIT
//
// Which checkpoints a directory keeps, which it finds, and what a bad disk does to it.
#include "ddp/io/checkpoint_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/io/directory_lock.h"
#include "support/checkpoints.h"
#include "support/file_size_limit.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::buffer_of;
using ddp::CheckpointDirectory;
using ddp::CheckpointName;
using ddp::find_number;
using ddp::LoadedCheckpoint;
using ddp::metadata_text;
using ddp::NamedBuffer;
using ddp::test::after_epoch;
using ddp::test::bytes_of;
using ddp::test::damaged;
using ddp::test::entries_of;
using ddp::test::error_of;
using ddp::test::FileSizeLimit;
using ddp::test::newest_value;
using ddp::test::save_epoch;
using ddp::test::TemporaryDirectory;
using ddp::test::value_in;
using ddp::test::write_bytes;
using Model = ddp::test::OneTensorModel;

namespace {

// The pid of a process that has ended.
pid_t dead_pid() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

}  // namespace

TEST_CASE("the newest K and the best are kept", "[checkpoint][directory]") {
  const TemporaryDirectory parent;
  const fs::path path = parent / "a/b";
  CheckpointDirectory directory({.path = path, .keep = 2});
  CHECK_FALSE(directory.load_newest());
  for (const int epoch : {1, 2, 3, 4, 5}) save_epoch(directory, epoch, epoch == 2);
  CHECK(bytes_of(path / "latest") == "model_epoch_5.safetensors\nmodel_epoch_4.safetensors\n");
  CHECK(entries_of(path) == 4);
  CHECK(newest_value(path) == 5);
  CHECK(value_in(path / "model_best.safetensors") == 2);
  save_epoch(directory, 6, true);
  CHECK(value_in(path / "model_best.safetensors") == 6);
  save_epoch(directory, 6, true);  // saved again, as after a resume
  CHECK(bytes_of(path / "latest") == "model_epoch_6.safetensors\nmodel_epoch_5.safetensors\n");
  CHECK(entries_of(path) == 4);

  CheckpointDirectory all({.path = path, .keep = 0});
  for (const int epoch : {7, 8, 9}) save_epoch(all, epoch);
  CHECK(all.names().size() == 5);
  CHECK_THROWS_AS(CheckpointDirectory({.path = path, .keep = -1}), std::invalid_argument);
}

TEST_CASE("numbers in a checkpoint's metadata are read back exactly, or named",
          "[checkpoint][directory]") {
  const TemporaryDirectory folder;
  CheckpointDirectory directory({.path = folder.path()});
  const std::vector<NamedBuffer> none;
  directory.save({.name = {.epochs = 1},
                  .metadata = {{"epoch", metadata_text(1)},
                               {"best", metadata_text(0.1 + 0.2)},
                               {"loss", "0.5 or so"}}},
                 none);
  const LoadedCheckpoint loaded = directory.load_newest().value();
  CHECK(loaded.number<int>("epoch") == 1);
  CHECK(loaded.number<double>("best") == 0.1 + 0.2);
  const std::string file = "[checkpoint] " + loaded.path.string() + ": ";
  CHECK(error_of([&] { (void)loaded.number<double>("lr"); }) ==
        file + "it has no lr in its metadata");
  CHECK(error_of([&] { (void)loaded.number<double>("loss"); }) ==
        file + "its loss is \"0.5 or so\"");
  CHECK(error_of([&] { (void)loaded.number<int>("best"); }) ==
        file + "its best is \"0.30000000000000004\"");
  CHECK(find_number<int>(loaded.content.metadata, "lr") == std::nullopt);
}

TEST_CASE("a checkpoint whose name would not be recognised is not saved",
          "[checkpoint][directory]") {
  const TemporaryDirectory place;
  CheckpointDirectory directory({.path = place.path()});
  CHECK(error_of([&] { save_epoch(directory, -1); }) ==
        "[checkpoint] model_epoch_-1.safetensors: epochs and steps count from 0");
  Model model(1);
  CHECK_THROWS_AS(
      directory.save({.name = {.epochs = 0, .step = -1}, .metadata = {}}, model.tensors()),
      std::invalid_argument);
  CHECK(entries_of(place.path()) == 0);
}

TEST_CASE("a file that is not listed is left alone", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 1});
  save_epoch(checkpoints, 2);
  write_bytes(directory / "model_epoch_1.safetensors", "mine");
  save_epoch(checkpoints, 3);
  CHECK(bytes_of(directory / "model_epoch_1.safetensors") == "mine");
  CHECK_FALSE(fs::exists(directory / "model_epoch_2.safetensors"));
}

TEST_CASE("a damaged newest checkpoint is skipped", "[checkpoint][directory][damage]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  for (const int epoch : {1, 2, 3}) save_epoch(writer, epoch);
  const fs::path newest = directory / "model_epoch_3.safetensors";
  write_bytes(newest, damaged(newest, fs::file_size(newest) - 1));
  CheckpointDirectory reader({.path = directory.path()});
  CHECK(value_in(reader.load_newest().value().path) == 2);
  CHECK(reader.names() == std::vector<CheckpointName>{after_epoch(2), after_epoch(1)});
  save_epoch(reader, 3);
  CHECK(newest_value(directory.path()) == 3);

  for (const int epoch : {1, 2, 3}) {
    fs::remove(directory / to_string(after_epoch(epoch)));
  }
  CheckpointDirectory empty({.path = directory.path()});
  CHECK_THAT(error_of([&] { (void)empty.load_newest(); }),
             Contains("none of 3 checkpoints in " + directory.path().string() +
                      " can be loaded (put one of them back, or remove them and `latest` to begin "
                      "anew), the newest because: ") &&
                 Contains("model_epoch_3.safetensors: cannot be opened: No such file"));
  fs::remove(directory / "latest");
  CHECK_FALSE(CheckpointDirectory({.path = directory.path()}).load_newest());
}

TEST_CASE("the newest checkpoint's metadata are read without its data", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  CHECK_FALSE(writer.newest_metadata());
  Model model(1);
  for (const int epoch : {1, 2}) {
    writer.save({.name = after_epoch(epoch), .metadata = {{"epoch", metadata_text(epoch)}}},
                model.tensors());
  }
  const fs::path newest = directory / "model_epoch_2.safetensors";
  write_bytes(newest, damaged(newest, fs::file_size(newest) - 1));
  CHECK(writer.newest_metadata().value().at("epoch") == "2");
  write_bytes(newest, damaged(newest, 1));
  CHECK(writer.newest_metadata().value().at("epoch") == "1");
  CHECK(writer.names().size() == 2);
}

TEST_CASE("a directory with only model_best is not an empty one", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  const fs::path best = directory / "model_best.safetensors";
  CheckpointDirectory writer({.path = directory.path()});
  CHECK_FALSE(writer.has_best());
  save_epoch(writer, 1, true);
  CHECK(writer.has_best());
  for (const char* name : {"latest", "model_epoch_1.safetensors"}) fs::remove(directory / name);
  CheckpointDirectory reader({.path = directory.path()});
  CHECK(error_of([&] { (void)reader.load_newest(); }) ==
        "[checkpoint] " + directory.path().string() +
            " has no checkpoint but model_best.safetensors, which a new training would overwrite: "
            "resume from " +
            best.string() + ", or move it away to begin anew");
  fs::remove(best);
  CHECK_FALSE(reader.load_newest());
}

TEST_CASE("if all checkpoints are damaged, the error names a best one that is not",
          "[checkpoint][directory][damage]") {
  const TemporaryDirectory directory;
  const fs::path best = directory / "model_best.safetensors";
  CheckpointDirectory writer({.path = directory.path()});
  save_epoch(writer, 1, true);
  save_epoch(writer, 2);
  for (const std::int64_t epoch : {1, 2}) {  // as new files, since one is linked to the best one
    const fs::path file = directory / to_string(after_epoch(epoch));
    const std::string bytes = damaged(file, fs::file_size(file) - 1);
    fs::remove(file);
    write_bytes(file, bytes);
  }
  const auto complaint = [&] {
    CheckpointDirectory reader({.path = directory.path()});
    return error_of([&] { (void)reader.load_newest(); });
  };
  CHECK_THAT(complaint(),
             Contains("none of 2 checkpoints in " + directory.path().string() +
                      " can be loaded (resume from " + best.string() +
                      ", which is intact, or put one of them back; to begin anew, move them, "
                      "`latest` and it away), the newest because: "));
  write_bytes(best, damaged(best, fs::file_size(best) - 1));
  CHECK_THAT(complaint(), Contains(" can be loaded, nor can model_best.safetensors (put one of "
                                   "them back, or remove them and `latest` to begin anew), the "
                                   "newest because: "));
}

TEST_CASE("a newest checkpoint that the system cannot read is an error and is not skipped",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  for (const int epoch : {1, 2}) save_epoch(writer, epoch);
  const fs::path newest = directory / "model_epoch_2.safetensors";
  fs::remove(newest);
  fs::create_symlink(newest, newest);
  CheckpointDirectory reader({.path = directory.path()});
  CHECK_THROWS_AS(reader.load_newest(), ddp::FileError);
  CHECK_THAT(error_of([&] { (void)reader.load_newest(); }),
             Contains(newest.string() + ": cannot be opened: Too many levels of symbolic links"));
  fs::remove(newest);  // as if a user had deleted it
  CHECK(newest_value(directory.path()) == 1);
}

TEST_CASE("after a resume from an earlier checkpoint, later ones are not listed",
          "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 2});
  for (const int epoch : {4, 5}) save_epoch(checkpoints, epoch);
  checkpoints.go_back_to(after_epoch(4));
  save_epoch(checkpoints, 4);
  CHECK(bytes_of(directory / "latest") == "model_epoch_4.safetensors\n");
  CHECK(fs::exists(directory / "model_epoch_5.safetensors"));
  CHECK(newest_value(directory.path()) == 4);
}

TEST_CASE("the checkpoint that a training goes back to is its newest, also before a save",
          "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  for (const int epoch : {3, 4, 5}) save_epoch(checkpoints, epoch);
  checkpoints.go_back_to(after_epoch(4));
  CHECK(checkpoints.names() == std::vector{after_epoch(4), after_epoch(3)});
  const std::optional<LoadedCheckpoint> loaded = checkpoints.load_newest();
  REQUIRE(loaded);
  CHECK(loaded->path == directory / "model_epoch_4.safetensors");
}

TEST_CASE("a full disk is an error that names file and tensor, and the old file remains",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 1});
  save_epoch(checkpoints, 1, true);
  std::vector<double> values(10000);
  const NamedBuffer large{"fc1.weight", {10000}, buffer_of(values)};
  std::string error;
  {
    const FileSizeLimit full(4096);
    error = error_of([&] {
      checkpoints.save({.name = after_epoch(2), .metadata = {}, .is_best = true}, {&large, 1});
    });
  }
  CHECK_THAT(error, Contains("\"fc1.weight\"") &&
                        Contains((directory / "model_epoch_2.safetensors").string()) &&
                        Contains("File too large"));
  CHECK(newest_value(directory.path()) == 1);
  CHECK(value_in(directory / "model_best.safetensors") == 1);
  CHECK(entries_of(directory.path()) == 3);
  save_epoch(checkpoints, 2);
  CHECK(newest_value(directory.path()) == 2);
}

TEST_CASE("a directory that cannot be made is named", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", "");
  CHECK_THAT(error_of([&] { const CheckpointDirectory below({.path = directory / "file/below"}); }),
             Contains("cannot create the directory " + (directory / "file/below").string()));
  const fs::path link = directory / "link";
  fs::create_symlink("/no/such/disk", link);
  for (const fs::path& path : {link, link / "", link / "run/1"}) {
    CHECK(error_of([&] { const CheckpointDirectory nowhere({.path = path}); }) ==
          "[checkpoint] cannot create the directory " + path.string() + ": " + link.string() +
              " is a link to /no/such/disk, which does not exist");
  }
}

TEST_CASE("the next save removes what killed processes left", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  const auto leave = [&](const std::string& mark) {
    write_bytes(directory / ("model_epoch_1.safetensors" + mark), "half");
  };
  const std::string dead = ".tmp." + std::to_string(dead_pid()) + ".0";
  const std::string own = ".tmp." + std::to_string(getpid()) + ".0";
  // The pid of a process of an ended container may here be another process's.
  const std::string reused = ".tmp." + std::to_string(getppid()) + ".0";
  const std::string locked = ".tmp." + std::to_string(getppid()) + ".1";
  const std::vector<std::string> others = {locked, ".tmp.x.0", ".tmp.1", ".tmp"};
  for (const std::string& mark : {dead, own, reused}) leave(mark);
  for (const std::string& mark : others) leave(mark);
  const ddp::FileDescriptor writer(
      open((directory / ("model_epoch_1.safetensors" + locked)).c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(flock(writer.get(), LOCK_EX) == 0);
  for (const std::string& name : {std::string("latest"), std::string("model_best.safetensors"),
                                  std::string(ddp::kDirectoryProbeName)}) {
    write_bytes(directory / (name + dead), "half");
  }
  const std::vector<std::string> not_ours = {"results" + dead, "model.safetensors" + own};
  for (const std::string& name : not_ours) write_bytes(directory / name, "somebody's");
  save_epoch(checkpoints, 2);
  CHECK_FALSE(fs::exists(directory / ("model_epoch_1.safetensors" + dead)));
  CHECK_FALSE(fs::exists(directory / ("model_epoch_1.safetensors" + own)));
  CHECK_FALSE(fs::exists(directory / ("model_epoch_1.safetensors" + reused)));
  for (const std::string& name : not_ours) CHECK(fs::exists(directory / name));
  CHECK(entries_of(directory.path()) == 2 + others.size() + not_ours.size());
}
