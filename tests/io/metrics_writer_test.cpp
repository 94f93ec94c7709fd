// SPDX-License-Identifier: MIT
#include "ddp/io/metrics_writer.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "support/file_size_limit.h"
#include "support/files.h"
#include "support/in_child.h"
#include "support/run_ranks.h"

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::test::bytes_of;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;

TEST_CASE("metrics are JSON lines in the order given", "[io][metrics]") {
  CHECK(ddp::format_metrics("step",
                            {{"epoch", 1}, {"loss", 0.5}, {"done", true}, {"note", "a\"b"}}) ==
        "{\"event\":\"step\",\"epoch\":1,\"loss\":0.5,\"done\":true,\"note\":\"a\\\"b\"}\n");
  const std::vector<int> samples(3);
  const std::vector<ddp::Metric> of_each_class = {{"a", 1}, {"samples", samples.size()}};
  CHECK(ddp::format_metrics("step", of_each_class) ==
        "{\"event\":\"step\",\"a\":1,\"samples\":3}\n");
  const auto line = nlohmann::json::parse(
      ddp::format_metrics("final", {{"a", std::nan("")},
                                    {"b", std::numeric_limits<double>::infinity()},
                                    {"c", 0.1},
                                    {"d", std::numeric_limits<std::int64_t>::max()},
                                    {"e", "\xff"}}));
  CHECK(line["a"].is_null());
  CHECK(line["b"].is_null());
  CHECK(line["c"].get<double>() == 0.1);
  CHECK(line["d"].get<std::int64_t>() == std::numeric_limits<std::int64_t>::max());
  CHECK_THAT(error_of([] {
               (void)ddp::format_metrics("step", {{"a", 1}, {"b", 2}, {"a", 3}});
             }),
             Contains("the name \"a\" is twice in a line of the event \"step\""));
  CHECK_THAT(error_of([] {
               (void)ddp::format_metrics("step", {{"event", "mine"}});
             }),
             Contains("the name \"event\" is twice"));
}

TEST_CASE("metrics can be read while they are written, and appended to", "[io][metrics]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "metrics.jsonl";
  {
    ddp::MetricsWriter writer(path);
    writer.write("step", {{"step", 1}});
    CHECK(bytes_of(path) == "{\"event\":\"step\",\"step\":1}\n");
    ddp::MetricsWriter(path, ddp::TextFileMode::kAppend).write("epoch", {});
    CHECK(bytes_of(path) == "{\"event\":\"step\",\"step\":1}\n{\"event\":\"epoch\"}\n");
    CHECK_THAT(error_of([&] { const ddp::MetricsWriter second(path); }),
               Contains("this or another process is writing this file"));
    CHECK(bytes_of(path) == "{\"event\":\"step\",\"step\":1}\n{\"event\":\"epoch\"}\n");
  }
  {
    ddp::MetricsWriter later(path);
    CHECK_FALSE(bytes_of(path).empty());
    later.begin();
    CHECK(bytes_of(path).empty());
    later.write("step", {});
  }
  {
    ddp::MetricsWriter without_begin(path);
    without_begin.write("epoch", {});
  }
  CHECK(bytes_of(path) == "{\"event\":\"epoch\"}\n");
  ddp::MetricsWriter late(path);
  ddp::MetricsWriter other(path, ddp::TextFileMode::kAppend);
  other.write("step", {});
  CHECK_THAT(error_of([&] { late.begin(); }), Contains("is writing this file"));
  CHECK(bytes_of(path) == "{\"event\":\"epoch\"}\n{\"event\":\"step\"}\n");
}

// With a file to which one may only append (chattr +a). Not all file systems and users can.
TEST_CASE("a file that cannot be emptied is an error of the start", "[io][metrics]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "metrics.jsonl";
  ddp::test::write_bytes(path, "old\n");
  const ddp::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  int flags = 0;
  const auto set_flags = [&](int value) { return ::ioctl(file.get(), FS_IOC_SETFLAGS, &value); };
  if (::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0 || set_flags(flags | FS_APPEND_FL) != 0) {
    WARN("SKIPPED: it is not possible here");
    return;
  }
  const std::string error = error_of([&] { const ddp::MetricsWriter writer(path); });
  REQUIRE(set_flags(flags) == 0);
  CHECK_THAT(error, Contains("cannot empty this file: Operation not permitted"));
  CHECK(bytes_of(path) == "old\n");
}

TEST_CASE("metrics that are appended begin a new line, also behind a torn one", "[io][metrics]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "metrics.jsonl";
  ddp::test::write_bytes(path, R"({"event":"step","loss":0.)");
  ddp::MetricsWriter(path, ddp::TextFileMode::kAppend).write("resume", {});
  ddp::MetricsWriter(path, ddp::TextFileMode::kAppend).write("step", {});
  CHECK(bytes_of(path) ==
        "{\"event\":\"step\",\"loss\":0.\n{\"event\":\"resume\"}\n{\"event\":\"step\"}\n");
}

TEST_CASE("a metrics file that cannot be written is named once, and training continues",
          "[io][metrics][disk]") {
  CHECK_THAT(error_of([] { const ddp::MetricsWriter writer("/no/such/metrics"); }),
             Contains("[metrics_writer] /no/such/metrics: cannot open: No such file"));
  ddp::MetricsWriter full("/dev/full");
  const ddp::MetricsWriter other("/dev/full");  // a device may have any number of writers
  CHECK_FALSE(full.failed());
  full.write("step", {});
  CHECK(full.failed());
  full.write("step", {});
}

TEST_CASE("a metrics file that has reached ulimit -f does not end the training",
          "[io][metrics][disk]") {
  const TemporaryDirectory directory;
  ddp::MetricsWriter metrics(directory / "metrics.jsonl");
  const ddp::test::FileSizeLimit limit(40);
  for (int i = 0; i < 4; ++i) metrics.write("step", {});
  CHECK(metrics.failed());
}

TEST_CASE("metrics may go to a pipe, whose reader need not be there", "[io][metrics]") {
  const TemporaryDirectory directory;
  const fs::path pipe = directory / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { const ddp::MetricsWriter writer(pipe); }),
             Contains("pipe: cannot open: it is a pipe that nobody reads"));
  ddp::FileDescriptor reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ddp::MetricsWriter writer(pipe);
  writer.write("step", {});
  std::array<char, 64> line{};
  REQUIRE(read(reader.get(), line.data(), line.size()) > 0);
  CHECK(std::string(line.data()) == "{\"event\":\"step\"}\n");
  CHECK_FALSE(writer.failed());
  reader.reset();
  writer.write("step", {});  // not killed by SIGPIPE
  CHECK(writer.failed());
}

TEST_CASE("metrics may go to the process's own stdout, whatever that is", "[io][metrics]") {
  const TemporaryDirectory directory;
  const fs::path log = directory / "log";
  int sockets[2] = {};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const ddp::FileDescriptor reader(sockets[0]);
  const ddp::FileDescriptor socket(sockets[1]);
  const auto file = ddp::FileDescriptor(open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string wanted = "before\n{\"event\":\"step\"}\nafter\n";
  ddp::test::check_in_child([&] {
    for (const int stream : {socket.get(), file.get()}) {
      dup2(stream, STDOUT_FILENO);
      dprintf(STDOUT_FILENO, "before\n");
      ddp::MetricsWriter("/dev/stdout").write("step", {});
      dprintf(STDOUT_FILENO, "after\n");
    }
    return ddp::test::Verdict::kGood;
  });
  std::array<char, 64> text{};
  REQUIRE(recv(reader.get(), text.data(), text.size(), MSG_DONTWAIT) > 0);
  CHECK(std::string(text.data()) == wanted);
  CHECK(bytes_of(log) == wanted);
}
