// SPDX-License-Identifier: MIT
//
// What becomes of output that cannot be written for a while.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/no_write_signals.h"
#include "launcher/output/log_file.h"
#include "launcher/output/sink.h"
#include "support/file_size_limit.h"
#include "support/files.h"

using namespace ddp::launcher;
using ddp::test::bytes_of;
using ddp::test::TemporaryDirectory;

TEST_CASE("a sink that cannot write drops everything", "[sink]") {
  const ddp::FileDescriptor full(::open("/dev/full", O_WRONLY));
  Sink sink(full.get());
  for (const char* line : {"a\n", "b\n"}) {
    sink.put(0, "", line, LineEnd::kNewline);
    sink.flush();
    CHECK(sink.error() == ENOSPC);
    CHECK_FALSE(sink.is_pending());
  }
}

// A descriptor that is full at first, then a file, stands for a disk that gets room again.
TEST_CASE("a sink that can write again says how much is missing, and goes on", "[sink]") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "out").string();
  const ddp::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  const ddp::FileDescriptor full(::open("/dev/full", O_WRONLY));
  const ddp::FileDescriptor out(::dup(file.get()));
  Sink sink(out.get());
  const auto show = [&](const std::string& text, LineEnd end) {
    sink.put(0, "", text, end);
    sink.flush();
  };
  show("half", LineEnd::kNone);
  REQUIRE(::dup2(full.get(), out.get()) == out.get());
  show(" a line\n", LineEnd::kNewline);
  show("b\n", LineEnd::kNewline);
  REQUIRE(::dup2(file.get(), out.get()) == out.get());
  show("c\n", LineEnd::kNewline);
  show("d\n", LineEnd::kNewline);
  CHECK(bytes_of(path) ==
        "half\nddp-launch: 10 bytes are missing here: No space left on device\nc\nd\n");
}

TEST_CASE("an output whose end is missing says so", "[sink]") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "out").string();
  const ddp::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  const ddp::FileDescriptor out(::open("/dev/full", O_WRONLY));
  {
    Sink sink(out.get());
    sink.put(0, "", "lost\n", LineEnd::kNewline);
    sink.flush();
    REQUIRE(::dup2(file.get(), out.get()) == out.get());
  }
  CHECK(bytes_of(path) == "ddp-launch: 5 bytes are missing here: No space left on device\n");
}

// A limit of the size of files, which is lifted, stands for a disk that gets room again.
TEST_CASE("a log file that can be written again says how much is missing", "[log-file]") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "stderr.log").string();
  LogFile log(path);
  const ddp::NoWriteSignals guard;
  {
    const ddp::test::FileSizeLimit limit(4);
    CHECK(log.write("whole") == EFBIG);
    CHECK(log.write("lost\n") == 0);
  }
  CHECK(log.write("c\n") == 0);
  CHECK(bytes_of(path) == "whol\nddp-launch: 6 bytes are missing here: File too large\nc\n");
}
