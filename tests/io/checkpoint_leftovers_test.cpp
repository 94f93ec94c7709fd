// SPDX-License-Identifier: MIT
//
// Files that nobody would ever use again do not stay in the directory.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_directory.h"
#include "support/checkpoints.h"
#include "support/file_size_limit.h"
#include "support/files.h"
#include "support/run_ranks.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::CheckpointDirectory;
using ddp::CheckpointName;
using ddp::test::after_epoch;
using ddp::test::bytes_of;
using ddp::test::error_of;
using ddp::test::FileSizeLimit;
using ddp::test::newest_value;
using ddp::test::save_epoch;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

TEST_CASE("a checkpoint that cannot be listed is removed, and the listed ones stay",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 0});
  for (int epoch = 1; epoch <= 40; ++epoch) save_epoch(checkpoints, epoch);
  const std::string list = bytes_of(directory / "latest");
  const auto size = fs::file_size(directory / "model_epoch_40.safetensors");
  REQUIRE(list.size() > size + 100);
  write_bytes(directory / "model_epoch_50.safetensors", "mine");
  {
    const FileSizeLimit full(size + 100);  // room for a checkpoint, but not for the list
    CHECK_THAT(error_of([&] { save_epoch(checkpoints, 41); }), Contains("latest: cannot write"));
    CHECK_FALSE(fs::exists(directory / "model_epoch_41.safetensors"));
    // It has replaced a file that is listed.
    CHECK_THAT(error_of([&] { save_epoch(checkpoints, 40); }), Contains("latest: cannot write"));
    // Nothing replaces this one.
    const FileSizeLimit fuller(10);
    CHECK_THAT(error_of([&] { save_epoch(checkpoints, 50); }), Contains("model_epoch_50"));
  }
  CHECK(bytes_of(directory / "latest") == list);
  CHECK(newest_value(directory.path()) == 40);
  CHECK(bytes_of(directory / "model_epoch_50.safetensors") == "mine");
  save_epoch(checkpoints, 42);
  CHECK(bytes_of(directory / "latest") == "model_epoch_42.safetensors\n" + list);
}

TEST_CASE("a file that a training goes back to is not removed if it cannot be listed",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 0});
  for (int epoch = 1; epoch <= 42; ++epoch) save_epoch(checkpoints, epoch);
  checkpoints.go_back_to(after_epoch(41));
  save_epoch(checkpoints, 41);
  const fs::path left = directory / "model_epoch_42.safetensors";
  const auto size = fs::file_size(left);
  const FileSizeLimit full(size + 100);  // room for a checkpoint, but not for the list
  CHECK_THAT(error_of([&] { save_epoch(checkpoints, 42); }), Contains("latest: cannot write"));
  CHECK(fs::file_size(left) == size);
}

TEST_CASE("a missing checkpoint that was skipped is forgotten", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  for (const int epoch : {1, 2}) save_epoch(writer, epoch);
  fs::remove(directory / "model_epoch_2.safetensors");
  CheckpointDirectory reader({.path = directory.path()});
  REQUIRE(reader.load_newest());
  CHECK(reader.names() == std::vector<CheckpointName>{after_epoch(1)});
}

TEST_CASE("a checkpoint that could not be removed is tried again by the next save",
          "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path(), .keep = 1});
  save_epoch(checkpoints, 1);
  const fs::path old = directory / "model_epoch_1.safetensors";
  fs::remove(old);
  fs::create_directories(old / "below");  // cannot be removed, also by root
  save_epoch(checkpoints, 2);
  CHECK(bytes_of(directory / "latest") == "model_epoch_2.safetensors\nmodel_epoch_1.safetensors\n");
  CHECK(newest_value(directory.path()) == 2);
  fs::remove(old / "below");
  CheckpointDirectory next({.path = directory.path(), .keep = 1});
  save_epoch(next, 3);
  CHECK(bytes_of(directory / "latest") == "model_epoch_3.safetensors\n");
  CHECK_FALSE(fs::exists(old));
  CHECK_FALSE(fs::exists(directory / "model_epoch_2.safetensors"));
}
