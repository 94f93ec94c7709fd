// SPDX-License-Identifier: MIT
//
// How the built ddp-launch ends a job after a failure or a signal, and what it does about processes
// that workers leave behind.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/process_status.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/launch.h"

using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using ddp::Timeout;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;
using ddp::test::wait_until_gone;
using namespace ddp::test::launch;
using ddp::test::write_bytes;

namespace {

// A program that does not load, as if its file system hung: before anybody may open its
// interpreter, the kernel asks this process, which has a lease of it, and waits for long.
class HungProgram {
 public:
  HungProgram() {
    std::filesystem::copy_file("/bin/sh", interpreter_);
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGIO);
    ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);
    file_ = ddp::FileDescriptor(::open(interpreter_.c_str(), O_RDONLY | O_CLOEXEC));
    is_hung_ = ::fcntl(file_.get(), F_SETLEASE, F_WRLCK) == 0;
  }

  [[nodiscard]] bool is_hung() const { return is_hung_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Waits until somebody waits for the program.
  static void await_execution() {
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGIO);
    const timespec limit{.tv_sec = 25, .tv_nsec = 0};
    REQUIRE(::sigtimedwait(&asked, nullptr, &limit) == SIGIO);
  }

 private:
  TemporaryDirectory folder_;
  std::string interpreter_ = folder_ / "interpreter";
  std::string path_ = write_file(folder_ / "program", "#!" + interpreter_ + "\n", 0755);
  ddp::FileDescriptor file_;
  bool is_hung_ = false;
};

}  // namespace

TEST_CASE("the first failure names the exit code and stops the others", "[launcher]") {
  const Result result = run(shell({"-n", "3"}, "[ $RANK = 1 ] && exit 7; sleep 1000"), kStopBound);
  CHECK(result.exit_code == 7);
  CHECK_THAT(result.err,
             Matches("ddp-launch: rank 1 \\([^,]+, pid [0-9]+\\) exited with code 7 after "
                     "[0-9.]+ s; 2 other ranks stopped because of it\n"));
}

TEST_CASE("a death by signal is named and becomes 128 + signal", "[launcher]") {
  const Result result =
      run(shell({"-n", "2"}, "[ $RANK = 1 ] && kill -SEGV $$; sleep 1000"), kStopBound);
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(result.err, Contains("rank 1 ") && Contains("was killed by SIGSEGV"));
}

TEST_CASE("a rank that dies as a consequence is not named as the cause", "[launcher]") {
  const TemporaryDirectory folder;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::string fifo = (folder / ("fifo" + std::to_string(repeat))).string();
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    // Rank 0 sees the end of the pipe in the moment of rank 1's death.
    const Result result =
        run(shell({"-n", "2"}, "if [ $RANK = 1 ]; then exec 3>" + fifo +
                                   "; kill -KILL $$; else read x <" + fifo + "; exit 1; fi"),
            kStopBound);
    CHECK(result.exit_code == 128 + SIGKILL);
    CHECK_THAT(result.err, Contains("rank 1 ") && Contains("SIGKILL"));
  }
}

TEST_CASE("the last stderr lines of a hidden rank are quoted, those of a shown rank are not",
          "[launcher]") {
  const std::string script = "[ $RANK = 1 ] || exec sleep 1000; seq 1 12 >&2; exit 3";
  const Result hidden = run(shell({"-n", "2", "--show", "0"}, script), kStopBound);
  Strings lines = lines_of(hidden.err);
  REQUIRE(lines.size() == 12);
  CHECK_THAT(lines[0], Contains("rank 1"));
  CHECK(lines[1] == "  3");
  CHECK(lines[10] == "  12");
  CHECK_THAT(lines[11], Contains("exited with code 3"));

  const Result shown = run(shell({"-n", "2"}, script), kStopBound);
  lines = lines_of(shown.err);
  REQUIRE(lines.size() == 13);
  CHECK(lines[0] == "rank 1| 1");
  CHECK_THAT(lines[12], Contains("exited with code 3"));
}

TEST_CASE("a signal to the launcher stops the job and is named", "[launcher]") {
  const std::pair<int, const char*> signals[] = {
      {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP: stopping"}};
  for (const auto& [signal_number, text] : signals) {
    ChildProcess child(shell({"-n", "2"}, kSleepers));
    const std::vector<pid_t> pids = wait_for_pids(child, 4);
    child.send_signal(signal_number);
    CHECK(child.wait(kStopBound) == 128 + signal_number);
    CHECK_THAT(child.err(), Contains(text) && Contains("2 ranks"));
    check_all_gone(pids);
  }
}

TEST_CASE("after the first failure, the other workers can still report the cause", "[launcher]") {
  const TemporaryDirectory folder;
  const std::string fifo = folder / "pid";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  constexpr int kAttempts = 5;  // it has 200 ms, which a busy machine may take from it
  bool is_reported = false;
  // Rank 1 goes on when the launcher has noticed the end of rank 0, which it then has waited for.
  const std::string script =
      "if [ $RANK = 0 ]; then echo $$ >\"$0\"; exit 1; fi; read pid <\"$0\"; "
      "while kill -0 $pid 2>/dev/null; do :; done; echo the cause >&2; exit 3";
  for (int attempt = 0; attempt < kAttempts && !is_reported; ++attempt) {
    const Result result = run(command({"-n", "2", "--", "sh", "-c", script, fifo}));
    CHECK(result.exit_code == 1);
    is_reported = result.err.find("rank 1| the cause") != std::string::npos;
  }
  CHECK(is_reported);
}

TEST_CASE("with --shutdown-timeout, workers have that time after a failure, too", "[launcher]") {
  const TemporaryDirectory folder;
  const std::string script =
      "[ $RANK = 0 ] || { until [ -e \"$0/up\" ]; do sleep 0.01; done; exit 6; }; "
      "trap 'sleep 3; echo saved; exit 0' TERM; touch \"$0/up\"; while :; do sleep 0.05; done";
  const Result result = run(command(
      {"-n", "2", "--shutdown-timeout", "60", "--", "sh", "-c", script, folder.path().string()}));
  CHECK(result.exit_code == 6);
  CHECK(result.out == "saved\n");
}

TEST_CASE("SIGUSR1 goes to all workers, SIGUSR2 to the first", "[launcher]") {
  const std::string script =
      "trap 'echo stop $RANK. >&2' USR1; trap 'echo report $RANK. >&2' USR2; echo pid=$$. >&2; "
      "while [ ! -e \"$0\" ]; do sleep 0.01; done";
  const TemporaryDirectory folder;
  const std::string done = folder / "done";
  ChildProcess child(command({"-n", "2", "--", "sh", "-c", script, done}));
  wait_for_pids(child, 2);
  child.send_signal(SIGUSR2);
  child.wait_for_output("report 0.");
  child.send_signal(SIGUSR1);
  child.wait_for_output("stop 0.");
  child.wait_for_output("stop 1.");
  write_bytes(done, "");
  CHECK(child.wait() == 128 + SIGTERM);  // the job ended cleanly, but early
  CHECK_THAT(
      child.err(),
      !Contains("report 1.") && Contains("SIGUSR2: passed on to rank 0\n") &&
          Contains("SIGUSR1: passed on to 2 ranks; ranks that still run after 30 s are killed\n"));
}

TEST_CASE("SIGHUP stays ignored if it was ignored at the start", "[launcher]") {
  ChildProcess child(shell({}, "echo ready; read x; exit 0"), {.ignored_signals = {SIGHUP}});
  child.wait_for_output("ready");
  child.send_signal(SIGHUP);
  child.write_stdin("\n");
  CHECK(child.wait() == 0);
  CHECK(child.err().empty());
}

TEST_CASE("workers and grandchildren that ignore SIGTERM are killed after the grace period",
          "[launcher]") {
  ChildProcess child(shell({"-n", "2", "--grace", "0.2"}, kStubborn));
  const std::vector<pid_t> pids = wait_for_pids(child, 4);
  REQUIRE(pids.size() == 4);
  ::kill(pids[0], SIGKILL);
  CHECK(child.wait(kStopBound) == 128 + SIGKILL);
  CHECK_THAT(last_line(child.err()), Contains(", pid " + std::to_string(pids[0]) + ")") &&
                                         Contains("1 other rank stopped because of it"));
  check_all_gone(pids);
}

TEST_CASE("a second Ctrl-C does not wait for the grace period", "[launcher]") {
  ChildProcess child(shell({"-n", "2", "--grace", "1000"}, kStubborn));
  const std::vector<pid_t> pids = wait_for_pids(child, 4);
  child.send_signal(SIGINT);
  child.wait_for_output("SIGINT: stopping 2 ranks");
  child.send_signal(SIGINT);
  CHECK(child.wait(kStopBound) == 128 + SIGINT);
  // After the second signal, the user knows why workers are killed, so there is no message.
  CHECK_THAT(child.err(), !Contains("had not ended") && !Contains("was killed by"));
  check_all_gone(pids);
}

TEST_CASE("a signal ends a job whose program does not load", "[launcher]") {
  const HungProgram program;
  if (!program.is_hung()) {
    std::fprintf(stderr, "SKIPPED: this file system has no leases\n");
    return;
  }
  const int signal_number = GENERATE(SIGINT, SIGTERM);
  ChildProcess child(command({"-n", "2", program.path()}));
  HungProgram::await_execution();
  child.send_signal(signal_number);
  CHECK(child.wait(kStopBound) == 128 + signal_number);
  CHECK_THAT(child.err(), Contains(ddp::signal_name(signal_number) + " while rank ") &&
                              Contains(" was being loaded"));
}

TEST_CASE("processes that a successful worker leaves behind are stopped", "[launcher]") {
  ChildProcess child(shell({}, "sleep 1000 & echo pid=$!. >&2"));
  const std::vector<pid_t> pids = wait_for_pids(child, 1);
  CHECK(child.wait(kStopBound) == 0);
  check_all_gone(pids);
  CHECK_THAT(child.err(), Contains("the ranks have ended, but not all that they started: ") &&
                              Contains("pid " + std::to_string(pids.at(0))));
}

// Such as `exec > >(tee log)` in a script.
TEST_CASE("what a successful worker leaves behind may end by itself", "[launcher]") {
  const TemporaryDirectory folder;
  ChildProcess child(command({"-n", "1", "--", "sh", "-c", "(sleep 0.5; touch \"$0/written\") &",
                              folder.path().string()}));
  CHECK(child.wait(kStopBound) == 0);
  CHECK(std::filesystem::exists(folder / "written"));
  CHECK_THAT(child.err(), !Contains("not all that they started"));
}

TEST_CASE("the workers die with a launcher that is killed", "[launcher]") {
  ChildProcess child(shell({"-n", "4"}, "echo pid=$$. >&2; exec sleep 1000"));
  const std::vector<pid_t> pids = wait_for_pids(child, 4);
  child.send_signal(SIGKILL);
  CHECK(child.wait(kStopBound) == 128 + SIGKILL);
  check_all_gone(pids);
}

TEST_CASE("children that the launcher had before the job are not touched", "[launcher]") {
  const std::string launch = DDP_LAUNCH_PATH;
  ChildProcess child(
      {"/bin/sh", "-c", "sleep 1000 & echo pid=$!. >&2; exec '" + launch + "' -n 2 true"});
  const std::vector<pid_t> pids = wait_for_pids(child, 1);
  child.close_output();
  CHECK(child.wait(kStopBound) == 0);
  CHECK_FALSE(wait_until_gone(pids.at(0), Timeout(0)));
  ::kill(pids.at(0), SIGKILL);
}
