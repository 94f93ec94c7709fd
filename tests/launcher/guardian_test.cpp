// SPDX-License-Identifier: MIT
//
// Checks that the built ddp-launch leaves nothing behind, however it ends, and how it handles
// signals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "support/becomes_true.h"
#include "support/files.h"
#include "support/free_endpoint.h"
#include "support/launch.h"
#include "support/terminal.h"

using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using ddp::Timeout;
using ddp::test::becomes_true;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using ddp::test::entries_of;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;
using ddp::test::Terminal;
using namespace ddp::test::launch;

namespace {

// A worker that reports when it has started and ends on request, through descriptors that a hangup
// does not close.
const std::string kPatient = "echo up >&3; read line <&4; echo alive >&3";

}  // namespace

TEST_CASE("no process outlives a launcher or agent that is killed", "[guardian]") {
  const bool kill_agent = GENERATE(false, true);
  ChildProcess child(shell({"-n", "2"}, kFamily));
  const std::vector<pid_t> pids = wait_for_pids(child, 2 * kFamilySize);
  const pid_t agent = pids_in(child.err(), "agent").at(0);
  REQUIRE(agent != child.pid());
  ::kill(kill_agent ? agent : child.pid(), SIGKILL);
  CHECK(child.wait(kStopBound) == 128 + SIGKILL);
  check_all_gone(pids);
  check_all_gone({agent});
  CHECK_THAT(last_line(child.err()), Contains("killed"));
}

TEST_CASE("the agent has a name of its own, so that killing the others by name spares it",
          "[guardian]") {
  ChildProcess child(shell({}, "echo agent=$PPID. pid=$$. >&2; read line"));
  wait_for_pids(child, 1);
  const std::string folder = "/proc/" + std::to_string(pids_in(child.err(), "agent").at(0));
  CHECK(bytes_of(folder + "/comm") == "ddp-agent\n");
  CHECK_THAT(bytes_of(folder + "/cmdline"), !Contains("ddp-launch") && !Contains("read line"));
  child.write_stdin("\n");
  CHECK(child.wait() == 0);
}

TEST_CASE("a Ctrl-C that a scheduler sends to every process counts once", "[guardian]") {
  ChildProcess child(
      shell({"--grace", "1000"},
            "trap 'read line; echo ended >&2; exit 0' TERM; echo agent=$PPID. pid=$$. >&2; "
            "while :; do sleep 0.01; done"));
  wait_for_pids(child, 1);
  ::kill(pids_in(child.err(), "agent").at(0), SIGINT);
  child.send_signal(SIGINT);
  child.wait_for_output("SIGINT: stopping 1 rank");
  child.write_stdin("\n");
  CHECK(child.wait(kStopBound) == 128 + SIGINT);
  CHECK_THAT(child.err(), Contains("ended"));  // it was not killed
}

TEST_CASE("an agent that is stopped is named, and does not keep the job from being stopped",
          "[guardian]") {
  ChildProcess child(
      shell({"-n", "1"}, "echo agent=$PPID. pid=$$. >&2; while :; do sleep 0.01; done"));
  const std::vector<pid_t> pids = wait_for_pids(child, 1);
  const pid_t agent = pids_in(child.err(), "agent").at(0);
  ::kill(agent, SIGSTOP);
  child.wait_for_output("ddp-launch: the agent (pid " + std::to_string(agent) +
                        ") is stopped: kill -CONT " + std::to_string(agent) + " continues it\n");
  child.send_signal(SIGINT);
  CHECK(child.wait(kStopBound) == 128 + SIGINT);
  check_all_gone(pids);
}

TEST_CASE("a scheduler's SIGTERM leaves more time than a Ctrl-C", "[guardian]") {
  ChildProcess child(shell({"-n", "2"},
                           "trap 'sleep 3.5; echo saved $RANK >&2; exit 0' TERM; "
                           "echo pid=$$. >&2; while :; do sleep 0.01; done"));
  wait_for_pids(child, 2);
  child.send_signal(SIGTERM);
  CHECK(child.wait(kStopBound) == 128 + SIGTERM);
  CHECK_THAT(child.err(), Contains("saved 0") && Contains("saved 1"));
}

TEST_CASE("--grace bounds what a request to stop may take", "[guardian]") {
  const int signal_number = GENERATE(SIGTERM, SIGINT, SIGUSR1);
  ChildProcess child(shell({"-n", "2", "--grace", "0.2"},
                           "trap '' TERM USR1; echo pid=$$. >&2; while :; do sleep 0.01; done"));
  const std::vector<pid_t> pids = wait_for_pids(child, 2);
  child.send_signal(signal_number);
  CHECK(child.wait(kStopBound) == 128 + (signal_number == SIGINT ? SIGINT : SIGTERM));
  check_all_gone(pids);
}

TEST_CASE("SIGUSR2 goes to the first rank that still runs", "[guardian]") {
  ChildProcess child(shell({"-n", "2"},
                           "[ $RANK = 0 ] && echo pid=$$. >&2 && exit 0; "
                           "trap 'echo report $RANK. >&2; exit 0' USR2; echo ready >&2; "
                           "while :; do sleep 0.01; done"));
  const pid_t rank0 = wait_for_pids(child, 1).at(0);
  child.wait_for_output("ready");
  REQUIRE(becomes_true([&] { return ::kill(rank0, 0) != 0; }));  // the agent has waited for it
  child.send_signal(SIGUSR2);
  child.wait_for_output("report 1.");
  CHECK(child.wait(kStopBound) == 0);
  CHECK_THAT(child.err(), Contains("SIGUSR2: passed on to rank 1\n"));
}

TEST_CASE("workers that die of SIGUSR1 have obeyed it", "[guardian]") {
  ChildProcess child(shell({"-n", "2"}, "echo pid=$$. >&2; while :; do sleep 0.01; done"));
  const std::vector<pid_t> pids = wait_for_pids(child, 2);
  child.send_signal(SIGUSR1);
  CHECK(child.wait(kStopBound) == 128 + SIGTERM);
  CHECK_THAT(child.err(), !Contains("was killed by"));
  check_all_gone(pids);
}

TEST_CASE("a failure after a request to stop is still a failure", "[guardian]") {
  ChildProcess child(shell({"-n", "2"},
                           "trap '[ $RANK = 1 ] && exit 9; exit 0' USR1; echo pid=$$. >&2; "
                           "while :; do sleep 0.01; done"));
  wait_for_pids(child, 2);
  child.send_signal(SIGUSR1);
  CHECK(child.wait(kStopBound) == 9);
  CHECK_THAT(last_line(child.err()), Contains("rank 1") && Contains("exited with code 9"));
}

TEST_CASE("Ctrl-C on a terminal stops the job", "[guardian][terminal]") {
  const TemporaryDirectory folder;
  const std::string log = folder / "log";
  Terminal terminal({"sh", "-c", "exec \"$@\" 2>" + log, "sh", DDP_LAUNCH_PATH, "-n", "2", "--",
                     "sh", "-c", kPatient});
  terminal.read_report("up\nup\n");
  terminal.type("\x03");
  CHECK(terminal.wait(kStopBound) == 128 + SIGINT);
  CHECK_THAT(bytes_of(log), Matches("ddp-launch: SIGINT: stopping 2 ranks, which have 3 s "
                                    "\\(--grace\\) to end \\(again: kill at once\\)\n"));
  terminal.check_report_ends();
}

// The terminal signals both, and timeout passes its signal on.
TEST_CASE("one Ctrl-C stays one behind a wrapper that passes it on", "[guardian][terminal]") {
  Terminal terminal({"timeout", "--foreground", "1000", DDP_LAUNCH_PATH, "-n", "1", "--grace",
                     "1000", "--", "sh", "-c",
                     "trap 'sleep 0.5; echo saved >&3; exit 0' TERM; echo up >&3; "
                     "while :; do sleep 0.01; done"});
  terminal.read_report("up\n");
  terminal.type("\x03");
  terminal.read_report("saved\n");
  CHECK(terminal.wait(kStopBound) == 128 + SIGINT);
  terminal.check_report_ends();
}

// It has no terminal of its own, and its output is a pipe.
TEST_CASE("rank 0 can ask how wide the launcher's terminal is", "[guardian][terminal]") {
  Terminal terminal({"sh", "-c", "stty cols 47 rows 9; exec \"$@\"", "sh", DDP_LAUNCH_PATH, "--",
                     "sh", "-c", "stty -F \"$DDP_LAUNCH_TTY\" size >&3"});
  terminal.read_report("9 47\n");
  CHECK(terminal.wait(kStopBound) == 0);
}

TEST_CASE("Ctrl-Z on a terminal suspends the workers, and fg continues them",
          "[guardian][terminal]") {
  const TemporaryDirectory folder;
  const std::string pid_file = folder / "pid";
  const std::string shell_script = "set -m; \"$@\"; until [ \"$(cut -d' ' -f3 /proc/$(cat " +
                                   pid_file +
                                   ")/stat)\" = T ]; do sleep 0.01; done; echo stopped >&3; fg";
  Terminal terminal({"sh", "-c", shell_script, "sh", DDP_LAUNCH_PATH, "--", "sh", "-c",
                     "echo $$ >" + pid_file + "; " + kPatient});
  terminal.read_report("up\n");
  terminal.type("\x1a");
  terminal.read_report("stopped\n");
  terminal.answer("\n");
  terminal.read_report("alive\n");
  CHECK(terminal.wait(kStopBound) == 0);
  terminal.check_report_ends();
}

TEST_CASE("while a job is suspended it is not started again", "[guardian][terminal]") {
  // The pause before the third restart is four seconds: time to stop the job, and to see it stay
  // so.
  const std::string shell_script =
      "set -m; \"$@\"; echo stopped >&3; sleep 6; echo continued >&3; fg";
  Terminal terminal(
      {"sh", "-c", shell_script, "sh", DDP_LAUNCH_PATH, "--max_restarts", "3", "--", "sh", "-c",
       "case $TORCHELASTIC_RESTART_COUNT in 0 | 1) exit 3 ;; 3) exec echo again >&3 ;; "
       "esac; echo fails >&3; exit 3"});
  terminal.read_report("fails\n");
  terminal.type("\x1a");
  terminal.read_report("stopped\n");
  terminal.read_report("continued\n");
  terminal.read_report("again\n");
  CHECK(terminal.wait(kStopBound) == 0);
  terminal.check_report_ends();
}

TEST_CASE("a launcher that is killed while it loads its workers leaves nothing behind",
          "[guardian]") {
  const TemporaryDirectory folder;
  const std::string file = folder / "pids";
  // Those that have left their sessions do not die with the agent.
  ChildProcess child(
      shell({"-n", "24"}, "setsid sleep 1000 & echo pid=$!. >>" + file + "; exec sleep 1000"));
  REQUIRE(ddp::test::becomes_true([&] { return std::filesystem::exists(file); }));
  child.send_signal(SIGKILL);
  CHECK(child.wait(kStopBound) == 128 + SIGKILL);
  CHECK(ddp::test::becomes_true([&] {
    return std::ranges::all_of(pids_in(bytes_of(file)), [](pid_t pid) {
      return ddp::test::wait_until_gone(pid, Timeout(0));
    });
  }));
}

// It has no need of its grace, which is longer than the bound.
TEST_CASE("a signal ends a job at once while it loads its workers", "[guardian]") {
  for (int round = 0; round < 10; ++round) {
    const int signal_number = round % 2 == 0 ? SIGTERM : SIGINT;
    const TemporaryDirectory folder;
    const std::string file = folder / "started";
    ChildProcess child(shell({"-n", "16", "--grace", "100"}, ">" + file + "; exec sleep 1000"));
    REQUIRE(ddp::test::becomes_true([&] { return std::filesystem::exists(file); }));
    child.send_signal(signal_number);
    CHECK(child.wait(kStopBound) == 128 + signal_number);
    CHECK_THAT(child.err(), !Contains("had not ended"));
  }
}

TEST_CASE("a launcher that is killed while it is suspended takes its workers along",
          "[guardian][terminal]") {
  const TemporaryDirectory folder;
  const std::string log = folder / "log";
  const std::string shell_script =
      "set -m; \"$@\" 2>" + log + "; echo stopped >&3; kill -KILL %1; wait";
  Terminal terminal({"sh", "-c", shell_script, "sh", DDP_LAUNCH_PATH, "-n", "2", "--", "sh", "-c",
                     "echo pid=$$. >&2; " + kPatient});
  terminal.read_report("up\nup\n");
  terminal.type("\x1a");
  terminal.read_report("stopped\n");
  terminal.check_report_ends();
  check_all_gone(pids_in(bytes_of(log)));
}

TEST_CASE("a terminal that closes stops the job, and the last line says how to avoid that",
          "[guardian][terminal]") {
  const TemporaryDirectory folder;
  const std::string log = folder / "log";
  Terminal terminal({"sh", "-c", "exec \"$@\" 2>" + log, "sh", DDP_LAUNCH_PATH, "-n", "2", "--",
                     "sh", "-c", kPatient});
  terminal.read_report("up\nup\n");
  terminal.close();
  CHECK(terminal.wait(kStopBound) == 128 + SIGHUP);
  CHECK(last_line(bytes_of(log)) == "ddp-launch: terminal closed (SIGHUP); use nohup or --detach");
  terminal.check_report_ends();
}

TEST_CASE("a worker that dies of SIGHUP has not closed the terminal", "[guardian]") {
  const Result result = run(shell({}, "kill -HUP $$"));
  CHECK(result.exit_code == 128 + SIGHUP);
  CHECK_THAT(result.err, Contains("SIGHUP") && !Contains("terminal closed"));
}

TEST_CASE("the job ends with its terminal even if it writes to it", "[guardian][terminal]") {
  Terminal terminal({DDP_LAUNCH_PATH, "-n", "2", "--", "sh", "-c",
                     "echo up >&3; while :; do echo a line of output; sleep 0.01; done"});
  terminal.read_report("up\nup\n");
  terminal.close();
  CHECK(terminal.wait(kStopBound) == 128 + SIGHUP);
  terminal.check_report_ends();
}

TEST_CASE("with nohup, or --detach, the job outlives its terminal", "[guardian][terminal]") {
  const TemporaryDirectory folder;
  const std::string start = GENERATE(as<std::string>(), "nohup \"$@\" >nohup.out 2>&1 & wait",
                                     "\"$0\" --detach \"$@\"; read line");
  const bool detaches = start.find("--detach") != std::string::npos;
  Strings argv = {"sh", "-c", "cd " + folder.path().string() + "; " + start};
  if (detaches) {
    argv.insert(argv.end(), {DDP_LAUNCH_PATH});
  } else {
    argv.insert(argv.end(), {"sh", DDP_LAUNCH_PATH});
  }
  argv.insert(argv.end(), {"-n", "2", "--", "sh", "-c", kPatient});
  Terminal terminal(argv);
  terminal.read_report("up\nup\n");
  terminal.close();
  CHECK(terminal.wait(kStopBound) == 128 + SIGHUP);  // the shell
  terminal.answer("\n\n");
  terminal.read_report("alive\nalive\n");
  terminal.check_report_ends();
}

TEST_CASE("--detach prints pid and log file, and returns while the job runs", "[detach]") {
  const TemporaryDirectory folder;
  const Result result =
      run({"/bin/sh", "-c",
           "cd " + folder.path().string() +
               "; exec \"$@\" --detach -n 2 --show all -- sh -c 'trap \"exit 0\" TERM; "
               "echo out $RANK; echo err $RANK >&2; while :; do sleep 0.01; done'",
           "sh", DDP_LAUNCH_PATH},
          kRefusalBound);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  std::smatch match;
  const std::regex pattern("ddp-launch: pid ([0-9]+), log file (.*/ddp-launch-([0-9]+).log)\n");
  REQUIRE(std::regex_match(result.out, match, pattern));
  CHECK(match[1] == match[3]);
  const pid_t pid = std::stoi(match[1]);
  CHECK_FALSE(ddp::test::wait_until_gone(pid, Timeout(0)));
  ::kill(pid, SIGTERM);
  CHECK(ddp::test::wait_until_gone(pid, kStopBound));
  CHECK_THAT(bytes_of(match[2].str()), Contains("SIGTERM: stopping 2 ranks"));
  CHECK_THAT(last_line(bytes_of(match[2].str())),
             Catch::Matches("ddp-launch: the job has ended after [0-9.]+ s, with exit code 143"));
}

TEST_CASE("--detach refuses what the job would refuse, and leaves no file", "[detach]") {
  const TemporaryDirectory folder;
  const std::string in_folder = "cd " + folder.path().string() + " && exec \"$@\"";
  const auto check = [&](const Strings& args, int exit_code, const std::string& text) {
    Strings argv = {"/bin/sh", "-c", in_folder, "sh", DDP_LAUNCH_PATH, "--detach"};
    argv.insert(argv.end(), args.begin(), args.end());
    check_refusal(argv, exit_code, text);
  };
  check({"no-such-program"}, 127, "no-such-program");
  check({"--master_addr", "192.0.2.77", "true"}, 2, "192.0.2.77");
  CHECK(entries_of(folder.path()) == 0);
}

namespace {

const std::regex kLogFile("log file (.*)\n");

std::string log_file_in(const std::string& output) {
  std::smatch match;
  return std::regex_search(output, match, kLogFile) ? match[1].str() : "";
}

}  // namespace

TEST_CASE("--detach keeps the log of an older job with the same pid", "[detach]") {
  const TemporaryDirectory folder;
  // Pids repeat, since each launcher is in a new container.
  const auto detach = [&folder](const std::string& program) {
    return run(
        {"/usr/bin/unshare", "--pid", "--fork", "sh", "-c", "cd \"$1\" && \"$2\" --detach \"$3\"",
         "sh", folder.path().string(), DDP_LAUNCH_PATH, program},
        kRefusalBound);
  };
  const std::string first = log_file_in(detach("true").out);
  if (first.empty()) {
    std::fprintf(stderr, "SKIPPED: no PID namespace can be made here (not root?)\n");
    return;
  }
  ddp::test::write_bytes(first, "results");
  const std::string second = log_file_in(detach("true").out);
  CHECK(second == first.substr(0, first.size() - 4) + "_2.log");
  CHECK(detach("no-such-program").exit_code == 127);
  CHECK(entries_of(folder.path()) == 2);
  CHECK(bytes_of(first) == "results");
}

TEST_CASE("--detach names a log file in the root folder without a superfluous slash", "[detach]") {
  const Result result =
      run({"/bin/sh", "-c", "cd / && exec \"$@\"", "sh", DDP_LAUNCH_PATH, "--detach", "true"},
          kRefusalBound);
  CHECK_THAT(result.out + result.err, Contains("/ddp-launch-") && !Contains("//"));
  std::filesystem::remove(log_file_in(result.out));
}

TEST_CASE("--detach prints pid and log file soon, even if it waits for other nodes", "[detach]") {
  const TemporaryDirectory folder;
  const std::uint16_t port = ddp::test::free_endpoint().port;
  ChildProcess child =
      launch_node(0, port,
                  {"/bin/sh", "-c", "cd " + folder.path().string() + " && exec \"$@\"", "sh",
                   DDP_LAUNCH_PATH, "--detach", "true"});
  child.wait_for_output(".log\n", kStopBound);
  child.send_signal(SIGTERM);
  CHECK(child.wait(kStopBound) == 128 + SIGTERM);
  CHECK_THAT(child.err(), Contains("SIGTERM while waiting for the other nodes"));
  CHECK(std::filesystem::exists(log_file_in(child.out())));  // it has been announced
  CHECK(lines_of(child.out()).size() == 1);
}
