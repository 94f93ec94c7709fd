// SPDX-License-Identifier: MIT
//
// Tests where the built ddp-launch writes the output of its workers.
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <regex>

#include "support/files.h"
#include "support/launch.h"

using namespace ddp::test::launch;
using Catch::Matchers::Contains;
using ddp::Timeout;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;

namespace {

// Each rank writes one line to each of its two streams.
const std::string kTalk = "echo out $RANK; echo err $RANK >&2";

// The only entry of a folder.
std::filesystem::path only_entry(const std::filesystem::path& folder) {
  REQUIRE(ddp::test::entries_of(folder) == 1);
  return std::filesystem::directory_iterator(folder)->path();
}

std::string remark_path(const std::string& err) {
  std::smatch match;
  const bool found = std::regex_search(err, match, std::regex("log files are in ([^ ]+) "));
  REQUIRE(found);
  return match[1];
}

}  // namespace

TEST_CASE("a line, a prompt and a progress bar appear on the console at once", "[launcher][logs]") {
  constexpr Timeout kBound{5000};  // the worker runs on and would not end before
  const std::string format = GENERATE("line\\n", "prompt? ", "10%%\\r");
  ChildProcess child(shell({"-n", "2"},
                           "[ $RANK = 0 ] || exec sleep 1000; echo ready; read x; "
                           "printf '" +
                               format + "'; read x; exit 0"));
  child.wait_for_output("ready");
  child.write_stdin("\n");
  const auto begin = ddp::Clock::now();
  child.wait_until([](const ChildProcess& c) { return c.out().size() > 6; });
  CHECK(ddp::Clock::now() - begin < kBound);
}

TEST_CASE("whole files per rank lie under the log folder", "[launcher][logs]") {
  const TemporaryDirectory folder;
  const Result result =
      run(shell({"-n", "2", "--log_dir", folder.path().string()}, kTalk + "; printf 'a\\rb'"));
  CHECK(result.exit_code == 0);
  CHECK(result.out == "out 0\na\rb");
  CHECK_THAT(result.err, Contains("err 0\n") && Contains("rank 1| err 1\n"));
  const auto attempt = only_entry(folder.path()) / "attempt_0";
  CHECK(bytes_of(attempt / "0/stdout.log") == "out 0\na\rb");
  CHECK(bytes_of(attempt / "0/stderr.log") == "err 0\n");
  CHECK(bytes_of(attempt / "1/stdout.log") == "out 1\na\rb");
  CHECK(bytes_of(attempt / "1/stderr.log") == "err 1\n");
}

TEST_CASE("the log folder bears the run's name, and the verdict names the file",
          "[launcher][logs]") {
  const TemporaryDirectory folder;
  const Result result =
      run(shell({"-n", "2", "--log_dir", folder.path().string(), "--rdzv_id=job7"},
                "[ $RANK = 1 ] && { echo why >&2; exit 7; }; sleep 1000"),
          kStopBound);
  CHECK(result.exit_code == 7);
  const std::string file = (folder / "job7/attempt_0/1/stderr.log").string();
  CHECK_THAT(result.err, Contains("ddp-launch: all of rank 1's stderr: " + file + "\n"));
  CHECK(bytes_of(file) == "why\n");
}

TEST_CASE("each attempt has its own files", "[launcher][logs]") {
  const TemporaryDirectory folder;
  const Result result =
      run(shell({"--max_restarts=1", "--rdzv_id=job", "--log_dir", folder.path().string()},
                "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]"),
          Timeout(60000));
  CHECK(result.exit_code == 0);
  CHECK(bytes_of(folder / "job/attempt_0/0/stdout.log") == "attempt 0\n");
  CHECK(bytes_of(folder / "job/attempt_1/0/stdout.log") == "attempt 1\n");
}

TEST_CASE("redirected streams go only to files, teed ones to files and console",
          "[launcher][logs]") {
  const TemporaryDirectory folder;
  const Result result = run(shell({"-n", "2", "--redirects=0:1,1:2", "--tee=1:1", "--rdzv_id=job",
                                   "--log_dir", folder.path().string()},
                                  kTalk));
  CHECK(result.out == "rank 1| out 1\n");
  CHECK(result.err == "err 0\n");
  CHECK(bytes_of(folder / "job/attempt_0/0/stdout.log") == "out 0\n");
  CHECK(bytes_of(folder / "job/attempt_0/1/stdout.log") == "out 1\n");
  CHECK(bytes_of(folder / "job/attempt_0/1/stderr.log") == "err 1\n");
}

TEST_CASE("redirects without a log folder print where the files are", "[launcher][logs]") {
  const TemporaryDirectory folder;
  const Result result =
      run(shell({"-n", "2", "--redirects", "3"}, kTalk), ChildProcess::kDefaultTimeout,
          {.environment = {{"TMPDIR", folder.path().string()}}});
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  const std::filesystem::path root = remark_path(result.err);
  CHECK(root.parent_path() == folder.path());
  CHECK(bytes_of(root / "attempt_0/1/stderr.log") == "err 1\n");
}

TEST_CASE("a filter of local ranks shows both streams of those", "[launcher][logs]") {
  const Result result = run(shell({"-n", "3", "--local-ranks-filter", "1"}, kTalk));
  CHECK(result.out == "rank 1| out 1\n");
  CHECK(result.err == "rank 1| err 1\n");
}

TEST_CASE("a log folder that cannot be made is refused before anything starts",
          "[launcher][logs]") {
  const TemporaryDirectory folder;
  ddp::test::write_bytes(folder / "file", "");
  const std::string path = (folder / "file" / "logs").string();
  check_refusal(shell({"--log_dir", path}, "echo started"), 2, path);
}

TEST_CASE("a full disk under the log folder is reported once, and the job continues",
          "[launcher][logs]") {
  const TemporaryDirectory folder;
  const std::string disk = folder.path().string();
  // A file system of 64 KiB in a mount namespace of its own.
  const Strings on_small_disk = {"/usr/bin/unshare",
                                 "-m",
                                 "sh",
                                 "-c",
                                 "mount -t tmpfs -o size=64k none " + disk + " && exec \"$@\"",
                                 "sh"};
  Strings probe = on_small_disk;
  probe.emplace_back("true");
  if (run(probe).exit_code != 0) {
    std::fprintf(stderr, "SKIPPED: no file system can be mounted here (not root?)\n");
    return;
  }
  Strings argv = on_small_disk;
  const Strings launch =
      shell({"-n", "2", "--show=all", "--log_dir", disk}, "seq 100000; echo end >&2");
  argv.insert(argv.end(), launch.begin(), launch.end());
  const Result result = run(argv, Timeout(60000));
  CHECK(result.exit_code == 0);
  CHECK(lines_of(result.out).size() == 200000);
  CHECK(lines_of(result.err).size() == 3);
  CHECK_THAT(result.err, Contains("cannot write " + disk) && Contains("No space left on device") &&
                             Contains("end\n"));
}
