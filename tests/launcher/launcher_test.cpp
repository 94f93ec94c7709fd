// SPDX-License-Identifier: MIT
//
// Tests the built ddp-launch with shells as workers. Time bounds are five times the promise.
// job_end_test.cpp has failures and signals.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>

#include "ddp/base/net/socket.h"
#include "ddp/store/tcp_store.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/launch.h"

using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using ddp::Timeout;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;
using namespace ddp::test::launch;

TEST_CASE("a job whose workers all succeed ends with 0 and without output", "[launcher]") {
  const Result result = run(command({"-n", "4", "true"}));
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
}

TEST_CASE("help and version go to stdout", "[launcher]") {
  CHECK_THAT(run(command({"--help"})).out, Contains("[flags] [--] PROGRAM"));
  CHECK_THAT(run(command({"--version"})).out, Matches("ddp-launch [0-9.]+\n"));
}

TEST_CASE("help that cannot be written is an error", "[launcher]") {
  const ChildProcess::Options onto_full_disk = {.stdout_path = "/dev/full"};
  for (const char* flag : {"--help", "--version"}) {
    const Result result = run(command({flag}), ChildProcess::kDefaultTimeout, onto_full_disk);
    CHECK(result.exit_code == 1);
    CHECK(result.err == "ddp-launch: cannot write to stdout: No space left on device\n");
  }
}

TEST_CASE("each worker gets its ranks and the others' number", "[launcher]") {
  const Result result = run(shell({"-n", "3", "--show", "all"},
                                  "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE "
                                  "$GROUP_RANK $MASTER_ADDR $TORCHELASTIC_USE_AGENT_STORE"));
  Strings lines = lines_of(result.out);
  std::ranges::sort(lines);
  CHECK(lines == Strings{"0 0 3 3 0 127.0.0.1 True", "rank 1| 1 1 3 3 0 127.0.0.1 True",
                         "rank 2| 2 2 3 3 0 127.0.0.1 True"});
}

TEST_CASE("the agent serves the store whose address the workers get", "[launcher]") {
  ChildProcess child(shell({}, "echo port=$MASTER_PORT.; read line; exit 0"));
  child.wait_for_output(".");
  const int port = std::stoi(child.out().substr(child.out().find('=') + 1));
  ddp::TcpStore store({"127.0.0.1", static_cast<std::uint16_t>(port)}, Timeout(5000));
  store.set("key", "value");
  CHECK(store.get("key") == "value");
  child.write_stdin("\n");
  CHECK(child.wait() == 0);
}

TEST_CASE("the worker's arguments stay untouched", "[launcher]") {
  const std::string script = "printf '%s\\n' \"$@\"";
  const Strings args = {"-n", "4", "--help", "--", "--nproc_per_node=9", "", "a b"};
  Strings argv = command({"-n", "1", "sh", "-c", script, "sh"});
  argv.insert(argv.end(), args.begin(), args.end());
  CHECK(lines_of(run(argv).out) == args);
}

TEST_CASE("a program that cannot run is refused before anything starts", "[launcher]") {
  const TemporaryDirectory folder;
  const std::string plain = write_file(folder / "plain", "#!/bin/sh\n", 0644);
  check_refusal(command({"-n", "2", "no-such-program"}), 127, "no-such-program");
  check_refusal(command({"-n", "2", "./no-such-program"}), 127, "./no-such-program");
  check_refusal(command({"-n", "2", plain}), 126, plain);
  check_refusal(command({"-n", "2", plain}), 126, "chmod +x");
  check_refusal(command({"-n", "2", folder.path().string()}), 126, folder.path().string());
  check_refusal(command({"-n", "2", write_file(folder / "lost", "#!/no/such/interpreter\n", 0755)}),
                127, "interpreter");
}

TEST_CASE("the soft limit of open files does not bound a job, and workers inherit it",
          "[launcher]") {
  const std::string job = R"(ulimit -S -n 40 && exec "$0" -n 8 -- sh -c 'ulimit -S -n')";
  const Result result = run({"/bin/sh", "-c", job, DDP_LAUNCH_PATH});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
  CHECK(result.out == "40\n");
}

TEST_CASE("a wrong command line is refused before anything starts", "[launcher]") {
  check_refusal(command({"--nproc_per_nide=2", "true"}), 2, "--nproc_per_node?");
  check_refusal(command({"--nproc_per_node=0", "true"}), 2, "--nproc_per_node=0");
  check_refusal(command({"-n", "2", "--show", "2", "true"}), 2, "rank 2");
  check_refusal(command({"-n", "2", "--local-ranks-filter", "2,7", "true"}), 2,
                "--local_ranks_filter 2,7: there is no such local rank among 2 workers");
  check_refusal({"/bin/sh", "-c", R"(ulimit -n 100 && exec "$0" -n 50 true)", DDP_LAUNCH_PATH}, 2,
                "open files");
  check_refusal(command({}), 2, "no PROGRAM");
}

TEST_CASE("a taken port is refused with its address and holder", "[launcher]") {
  const ddp::Socket taken = ddp::Socket::listen({"127.0.0.1", 0});
  const std::string port = std::to_string(taken.local_endpoint().port);
  check_refusal(
      shell({"-n", "2", "--master_port", port}, "echo started"), 2,
      "127.0.0.1:" + port + ": Address already in use by pid " + std::to_string(::getpid()) + " (");
}

TEST_CASE("an address of another host is refused", "[launcher]") {
  check_refusal(shell({"--master_addr", "192.0.2.77"}, "echo started"), 2,
                "192.0.2.77:0: Cannot assign requested address; this host has 127.0.0.1");
}

// Reading a terminal from the background would stop it.
TEST_CASE("a worker leads a session, which has no terminal", "[launcher]") {
  const Result result =
      run(shell({"-n", "2"}, "[ \"$(cut -d' ' -f6 /proc/$$/stat)\" = $$ ] && ! true </dev/tty"));
  CHECK(result.exit_code == 0);
}

TEST_CASE("a Python program that is executed by itself shows its lines at once, too",
          "[launcher]") {
  const TemporaryDirectory folder;
  const std::string program =
      write_file(folder / "program.py", "#!/bin/sh\n[ \"$PYTHONUNBUFFERED\" = \"$1\" ]\n", 0700);
  CHECK(run(command({program, "1"})).exit_code == 0);
  const ChildProcess::Options own_choice{.environment = {{"PYTHONUNBUFFERED", "0"}}};
  CHECK(run(command({program, "0"}), kRefusalBound, own_choice).exit_code == 0);
}

TEST_CASE("scripts need no interpreter line", "[launcher]") {
  const TemporaryDirectory folder;
  write_file(folder / "python3", "#!/bin/sh\necho fake python \"$@\"\n", 0755);
  const std::string text = write_file(folder / "script", "echo plain text \"$@\"\n", 0755);
  const std::string python = write_file(folder / "train.py", "print()\n", 0644);
  const std::string runnable = write_file(folder / "tool.py", "#!/bin/sh\necho own line\n", 0755);
  const ChildProcess::Options path{
      .environment = {{"PATH", folder.path().string() + ":/usr/bin:/bin"}}};
  CHECK(run(command({text, "-x"}), kRefusalBound, path).out == "plain text -x\n");
  CHECK(run(command({python, "-x"}), kRefusalBound, path).out ==
        "fake python -u " + python + " -x\n");
  CHECK(run(command({runnable}), kRefusalBound, path).out == "own line\n");
}

TEST_CASE("a limit on file sizes does not kill the launcher, and is named when it kills a worker",
          "[launcher]") {
  const auto limited = [](const std::string& bash_blocks, const std::vector<std::string>& argv,
                          const ChildProcess::Options& options = {}) {
    std::vector<std::string> all = {"/bin/bash", "-c", "ulimit -f " + bash_blocks + "; exec \"$@\"",
                                    "-"};
    all.insert(all.end(), argv.begin(), argv.end());
    return run(all, ChildProcess::kDefaultTimeout, options);
  };
  // ThreadSanitizer writes a file into TMPDIR before main, where the signal would still kill it.
  const ChildProcess::Options nowhere{.environment = {{"TMPDIR", "/no/such"}}};
  CHECK(limited("0", command({"-n", "2", "true"}), nowhere).exit_code == 0);
  const TemporaryDirectory folder;
  const Result logged = limited(
      "1", command({"--log_dir", folder.path().string(), "head", "-c", "5000", "/dev/zero"}));
  CHECK(logged.exit_code == 0);
  CHECK_THAT(logged.err, Contains("File too large"));
  const Result killed = limited(
      "1", command({"sh", "-c", "exec head -c 5000 /dev/zero >" + (folder / "file").string()}));
  CHECK(killed.exit_code == 128 + SIGXFSZ);
  CHECK_THAT(killed.err, Contains("SIGXFSZ") && Contains("the limit of 1 KiB (ulimit -f)"));
}

TEST_CASE("a place for logs that cannot be used is refused with the way to another", "[launcher]") {
  const ChildProcess::Options nowhere{.environment = {{"TMPDIR", "/no/such"}}};
  CHECK_THAT(run(command({"-r", "3", "true"}), kRefusalBound, nowhere).err,
             Contains("cannot make a log folder in '/no/such'") && Contains("--log_dir"));
  const Result gone = run({"/bin/sh", "-c", "cd \"$(mktemp -d)\" && rmdir \"$PWD\" && exec \"$@\"",
                           "-", command({}).front(), "--detach", "true"});
  CHECK(gone.exit_code == 2);
  CHECK_THAT(gone.err, Contains("--detach: no log file can be made in the working directory"));
}

TEST_CASE("a script whose interpreter cannot be found is refused with the reason", "[launcher]") {
  const TemporaryDirectory folder;
  const std::string windows = write_file(folder / "windows", "#!/bin/sh\r\ntrue\r\n", 0755);
  const std::string missing = write_file(folder / "missing", "#!/no/such/shell\ntrue\n", 0755);
  check_refusal(command({windows}), 127, "first line ends with a carriage return");
  check_refusal(command({missing}), 127, "interpreter of its first line is missing");
}

TEST_CASE("the lines of eight ranks are written whole", "[launcher]") {
  const std::string script = GENERATE(as<std::string>(),
                                      // a write per line
                                      "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); "
                                      "echo \"$RANK $i abcdefghijklmnopqrstuvwxyz\"; done",
                                      // a write per block, which ends in mid-line
                                      "seq -f \"$RANK %g abcdefghijklmnopqrstuvwxyz\" 10000");
  const Result result = run(shell({"-n", "8", "--show", "all"}, script), Timeout(100000));
  CHECK(result.exit_code == 0);
  const std::regex pattern("(rank ([0-9])\\| )?([0-9]) ([0-9]+) abcdefghijklmnopqrstuvwxyz");
  std::map<std::string, int> last;
  Strings torn;
  for (const std::string& line : lines_of(result.out)) {
    std::smatch match;
    const bool is_whole = std::regex_match(line, match, pattern) &&
                          (match[1].matched ? match[2] == match[3] : match[3] == "0");
    if (!is_whole || std::stoi(match[4]) != ++last[match[3]]) torn.push_back(line);
  }
  CHECK(torn == Strings());
  CHECK(last.size() == 8);
  for (const auto& [rank, count] : last) CHECK(count == 10000);
}

TEST_CASE("progress bars and prompts are shown before their line ends", "[launcher]") {
  ChildProcess child(shell({"-n", "2", "--show", "all"},
                           "[ $RANK = 0 ] || exit 0; printf '10%%\\r'; printf '20%%\\rname? '; "
                           "read answer; echo \"hello $answer\""));
  child.wait_for_output("10%\r20%\rname? ");
  child.write_stdin("you\n");
  CHECK(child.wait() == 0);
  CHECK(child.out() == "10%\r20%\rname? hello you\n");
}

TEST_CASE("a last line without a newline is not lost", "[launcher]") {
  CHECK(run(shell({}, "printf unfinished")).out == "unfinished");
}

TEST_CASE("only rank 0 has a stdin", "[launcher]") {
  ChildProcess child(shell({"-n", "2", "--show", "all"}, "read x; echo \"got '$x'\""));
  child.wait_for_output("rank 1| got ''");
  child.write_stdin("a\n");
  CHECK(child.wait() == 0);
  CHECK_THAT(child.out(), Contains("got 'a'"));
}

TEST_CASE("the job continues if stdout cannot be written", "[launcher]") {
  const TemporaryDirectory folder;
  const std::string script =
      "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo \"a line of output $i\"; done; "
      "touch " +
      (folder / "done").string();
  SECTION("its reader has left") {
    ChildProcess child(shell({}, script));
    child.wait_for_output("output 1\n");
    child.close_stdout();
    CHECK(child.wait() == 0);
    CHECK(child.err() ==
          "ddp-launch: stdout is closed: the job goes on, and the output of the ranks is no longer "
          "shown (--log-dir keeps it in files)\n");
  }
  SECTION("its reader has left, but files have all") {
    ChildProcess child(shell({"--log-dir", (folder / "logs").string()}, script));
    child.wait_for_output("output 1\n");
    child.close_stdout();
    CHECK(child.wait() == 0);
    CHECK_THAT(child.err(),
               Matches("ddp-launch: stdout is closed: the job goes on, and the output "
                       "of the ranks is no longer shown \\(log files: .*/logs/.*\\)\n"));
  }
  SECTION("the disk is full") {
    const Result result =
        run(shell({}, script), ChildProcess::kDefaultTimeout, {.stdout_path = "/dev/full"});
    CHECK(result.exit_code == 0);
    CHECK(lines_of(result.err).size() == 1);
    CHECK_THAT(result.err, Contains("No space left on device"));
  }
  SECTION("it is closed") {
    const Result result =
        run(shell({}, script), ChildProcess::kDefaultTimeout, {.close_stdout = true});
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
  }
  CHECK(std::filesystem::exists(folder / "done"));
}

TEST_CASE("launchers that start at the same time stay separate", "[launcher]") {
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(std::make_unique<ChildProcess>(command({"-n", "2", "true"})));
  }
  for (const auto& child : children) CHECK(child->wait(kStopBound) == 0);
}
