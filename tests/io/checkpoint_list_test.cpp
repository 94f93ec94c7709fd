// SPDX-License-Identifier: MIT
//
// The names of checkpoints, and the file that lists them.
#include "ddp/io/checkpoint_list.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_directory.h"
#include "support/checkpoints.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::CheckpointDirectory;
using ddp::CheckpointName;
using ddp::test::after_epoch;
using ddp::test::bytes_of;
using ddp::test::error_of;
using ddp::test::newest_value;
using ddp::test::save_epoch;
using ddp::test::TemporaryDirectory;
using ddp::test::value_in;
using ddp::test::write_bytes;

TEST_CASE("checkpoints are named, and ordered by progress", "[checkpoint]") {
  const CheckpointName inside{.epochs = 2, .step = 1100};
  CHECK(to_string(after_epoch(2)) == "model_epoch_2.safetensors");
  CHECK(to_string(inside) == "model_epoch_2_step_1100.safetensors");
  CHECK(after_epoch(2) < inside);
  CHECK(inside < after_epoch(3));
  CHECK(after_epoch(9) < after_epoch(10));
  for (const CheckpointName& name : {after_epoch(0), after_epoch(12), inside}) {
    CHECK(ddp::parse_checkpoint_name(to_string(name)) == name);
  }
  for (const char* text :
       {"", "model_epoch_", "model_epoch_x.safetensors", "model_epoch_-1.safetensors",
        "model_epoch_007.safetensors", "model_epoch_1_step_.safetensors", "model_best.safetensors",
        "../model_epoch_1.safetensors", "model_epoch_1.safetensors.tmp.1.0",
        "model_epoch_99999999999999999999.safetensors"}) {
    CAPTURE(text);
    CHECK_FALSE(ddp::parse_checkpoint_name(text));
  }
}

TEST_CASE("a link that a user named latest is replaced, and not what it leads to",
          "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  save_epoch(checkpoints, 1);
  fs::remove(directory / "latest");
  fs::create_symlink("model_epoch_1.safetensors", directory / "latest");
  save_epoch(checkpoints, 2);
  CHECK(fs::is_regular_file(fs::symlink_status(directory / "latest")));
  CHECK(value_in(directory / "model_epoch_1.safetensors") == 1);
  CHECK(newest_value(directory.path()) == 2);
}

TEST_CASE("a list that is no file is an error", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  REQUIRE(mkfifo((directory / "latest").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { const CheckpointDirectory reader({.path = directory.path()}); }),
             Contains("latest: is not a regular file"));
}

TEST_CASE("a list that the system cannot read is an error, too", "[checkpoint][directory][disk]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  save_epoch(writer, 1);
  fs::remove(directory / "latest");
  fs::create_symlink("/proc/self/mem", directory / "latest");  // its first page cannot be read
  CHECK_THAT(error_of([&] { const CheckpointDirectory reader({.path = directory.path()}); }),
             Contains("cannot read " + directory.path().string()) &&
                 Contains("latest: cannot be read: Input/output error"));
}

TEST_CASE("without a list the order follows from the names", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path(), .keep = 0});
  for (const int epoch : {1, 9, 10}) save_epoch(writer, epoch);
  fs::remove(directory / "latest");
  CHECK(newest_value(directory.path()) == 10);
  for (const char* nonsense : {"", "\n", "/etc/passwd\n", "\xff"}) {
    write_bytes(directory / "latest", nonsense);
    CHECK(newest_value(directory.path()) == 10);
  }
  for (const char* end : {"\n", "\r\n"}) {
    write_bytes(directory / "latest", std::string("model_epoch_9.safetensors") + end);
    CHECK(newest_value(directory.path()) == 9);
  }
}

TEST_CASE("what an editor adds to a list does not make it another one", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path(), .keep = 0});
  for (const int epoch : {1, 2, 3}) save_epoch(writer, epoch);  // 3 is of a branch that was left
  const std::string two = "model_epoch_2.safetensors", one = "model_epoch_1.safetensors";
  const std::vector<CheckpointName> both{after_epoch(2), after_epoch(1)};
  for (const std::string& list :
       {two + "\n" + one + "\n\n", "\n" + two + "\n\n" + one, "\xef\xbb\xbf" + two + "\n" + one,
        "\xef\xbb\xbf\r\n  " + two + " \r\n\t" + one + "\r\n \r\n"}) {
    CAPTURE(list);
    write_bytes(directory / "latest", list);
    const ddp::test::StderrCapture log;
    CHECK(CheckpointDirectory({.path = directory.path()}).names() == both);
    CHECK(log.text().empty());
  }
}

TEST_CASE("a strange line in a list is skipped with a warning", "[checkpoint][directory]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path(), .keep = 0});
  for (const int epoch : {1, 2}) save_epoch(writer, epoch);
  write_bytes(directory / "latest", "# mine \xff\nmodel_epoch_1.safetensors\n");
  const ddp::test::StderrCapture log;
  CHECK(newest_value(directory.path()) == 1);
  CHECK_THAT(log.text(), Contains((directory / "latest").string() +
                                  ": \"# mine ?\" is no name of a checkpoint; using the other "
                                  "lines"));
}

// As after a bit of the newest one's number has changed.
TEST_CASE("a list with a name twice is none, and no file that is kept is removed",
          "[checkpoint][directory][damage]") {
  const TemporaryDirectory directory;
  CheckpointDirectory writer({.path = directory.path()});
  for (const int epoch : {1, 2, 3}) save_epoch(writer, epoch);
  std::string list = bytes_of(directory / "latest");
  list[list.find('3')] ^= 1;
  write_bytes(directory / "latest", list);
  const ddp::test::StderrCapture log;
  CheckpointDirectory reader({.path = directory.path()});
  CHECK_THAT(log.text(), Contains((directory / "latest").string() +
                                  " is not a list of checkpoints: using the names of the files "
                                  "there instead"));
  CHECK(value_in(reader.load_newest().value().path) == 3);
  save_epoch(reader, 4);
  CHECK(bytes_of(directory / "latest") ==
        "model_epoch_4.safetensors\nmodel_epoch_3.safetensors\nmodel_epoch_2.safetensors\n");
  for (const CheckpointName& name : reader.names()) {
    CHECK(value_in(directory / to_string(name)) == static_cast<float>(name.epochs));
  }
}
