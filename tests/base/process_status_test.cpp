// SPDX-License-Identifier: MIT
#include "ddp/base/system/process_status.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "ddp/base/busy_with.h"
#include "ddp/base/system/home_process.h"
#include "ddp/base/system/key_press.h"
#include "support/becomes_true.h"
#include "support/grouping_locale.h"

using namespace ddp;
using ddp::test::becomes_true;
using namespace std::chrono_literals;

namespace {

std::optional<ProcessStat> read_main_thread(pid_t pid) {
  const std::string id = std::to_string(pid);
  std::string line;
  std::getline(std::ifstream("/proc/" + id + "/task/" + id + "/stat"), line);
  return parse_process_stat(line);
}

}  // namespace

TEST_CASE("a wait status is described in words and as a shell's exit code", "[process-status]") {
  CHECK(describe_status(W_EXITCODE(7, 0)) == "exited with code 7");
  CHECK(describe_status(W_EXITCODE(0, SIGKILL)) == "was killed by SIGKILL");
  CHECK(describe_status(W_EXITCODE(0, SIGSEGV) | WCOREFLAG) ==
        "was killed by SIGSEGV (core dumped)");
  CHECK(describe_status(W_EXITCODE(0, SIGUSR2)) ==
        "was killed by SIGUSR2 (it had no handler, such as a SignalGuard)");
  CHECK(exit_code_of(W_EXITCODE(7, 0)) == 7);
  CHECK(exit_code_of(W_EXITCODE(0, SIGTERM)) == 143);
}

TEST_CASE("signals without a name have a number", "[process-status]") {
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(SIGRTMIN) == "signal " + std::to_string(SIGRTMIN));
}

TEST_CASE("process states are read from /proc", "[process-status]") {
  const auto parsed = parse_process_stat(
      "4711 (a) (b) S 1 4700 4700 0 -1 4194564 1 2 3 4 5 6 7 8 20 0 1 0 98765 0\n");
  REQUIRE(parsed);
  CHECK(parsed->pid == 4711);
  CHECK(parsed->state == 'S');
  CHECK(parsed->parent == 1);
  CHECK(parsed->group == 4700);
  CHECK(parsed->is_exiting());
  CHECK(parsed->threads == 1);
  CHECK(parsed->start_time == 98765);
  CHECK_FALSE(parse_process_stat("4711 (a"));
  CHECK_FALSE(parse_process_stat("4711 (a) S 1"));
  const auto own = read_process(::getpid());
  REQUIRE(own);
  CHECK(own->parent == ::getppid());
  CHECK_FALSE(own->is_exiting());
  CHECK_FALSE(own->is_stopped());
}

TEST_CASE("process states are read whatever the program's locale is", "[process-status]") {
  const test::GroupingLocale locale;
  const auto own = read_process(::getpid());
  REQUIRE(own);
  CHECK(own->pid == ::getpid());
  CHECK(own->parent == ::getppid());
}

TEST_CASE("a process lives on after its main thread has ended, until it is killed",
          "[process-status]") {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([parent] {
      while (die_with(parent)) std::this_thread::sleep_for(1s);
    }).detach();
    ::syscall(SYS_exit, 0);  // ends this thread alone
  }
  REQUIRE(becomes_true([&] { return read_main_thread(child).value().is_zombie(); }));
  CHECK_FALSE(read_process(child)->is_zombie());
  CHECK_FALSE(read_process(child)->is_exiting());
  ::kill(child, SIGSTOP);
  CHECK(becomes_true([&] { return read_process(child)->is_stopped(); }));
  ::kill(child, SIGKILL);
  CHECK(becomes_true([&] { return read_process(child)->is_zombie(); }));
  CHECK(read_process(child)->is_exiting());
  CHECK(wait_for_child(child) == SIGKILL);
}

TEST_CASE("a child ends with its parent, or learns that the parent is gone", "[process-status]") {
  for (const bool is_parent : {true, false}) {
    const pid_t parent = is_parent ? ::getpid() : ::getppid();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(die_with(parent) ? 0 : 1);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(exit_code_of(status) == (is_parent ? 0 : 1));
  }
}

TEST_CASE("what was made before a fork belongs to the parent, what was made after it to the child",
          "[process-status]") {
  const HomeProcess parent;
  const pid_t child = ::fork();
  if (child == 0) {
    const HomeProcess here;
    const bool is_right = !parent.is_here() && parent.pid() == ::getppid() && here.is_here() &&
                          here.pid() == ::getpid();
    ::_exit(is_right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(exit_code_of(status) == 0);
  CHECK(parent.is_here());
}

TEST_CASE("a wrapper's copy of a terminal's signal is no second press", "[key-press]") {
  KeyPress press;
  CHECK_FALSE(press.is_copy(SI_KERNEL));
  CHECK(press.is_copy(SI_USER));
  CHECK_FALSE(press.is_copy(SI_KERNEL));  // the second press
  CHECK(press.is_copy(SI_USER));
  KeyPress copied_first;
  CHECK_FALSE(copied_first.is_copy(SI_USER));
  CHECK(copied_first.is_copy(SI_KERNEL));
  KeyPress sent;
  CHECK_FALSE(sent.is_copy(SI_USER));
  CHECK_FALSE(sent.is_copy(SI_TKILL));
}

TEST_CASE("the description of a process stays text, whatever its command line holds", "[process]") {
  std::string name = "\x1b[31m\x9b\u009b\x7f";
  for (int i = 0; i < 60; ++i) name += "ü";
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sleep", name.c_str(), "1000", nullptr);
    ::_exit(1);
  }
  const std::string begin = "pid " + std::to_string(child) + " ( [31m\ufffd  ü";
  CHECK(becomes_true([&] { return describe_process(child).starts_with(begin); }));
  CHECK(describe_process(child).ends_with("ü...)"));
  CHECK(describe_process(child).size() < 110);
  ::kill(child, SIGKILL);
  (void)wait_for_child(child);
}

// Two threads may run the handlers of the two signals.
TEST_CASE("of a press and its copy that come at once, one counts", "[key-press]") {
  for (int round = 0; round < 100; ++round) {
    KeyPress press;
    std::atomic<int> copies = 0;
    std::atomic<int> ready = 0;
    const auto take = [&](int si_code) {
      for (++ready; ready < 2;) std::this_thread::yield();
      copies += press.is_copy(si_code) ? 1 : 0;
    };
    std::thread other(take, SI_USER);
    take(SI_KERNEL);
    other.join();
    if (copies != 1) FAIL("copies: " << copies);
  }
}

// A thread of the parent may hold the mutex of what it is busy with when it forks.
TEST_CASE("a fork does not wait for what its parent is busy with", "[busy-with]") {
  std::atomic<bool> is_over = false;
  std::thread reader([&] {
    while (!is_over) static_cast<void>(busy_with());
  });
  const BusyWith outer("forking");
  int status = 0;
  for (int round = 0; round < 50 && status == 0; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      const BusyWith inner("being a fork");
      ::_exit(busy_with().starts_with("being a fork for ") ? 0 : 1);
    }
    if (becomes_true([&] { return ::waitpid(child, &status, WNOHANG) == child; })) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  is_over = true;
  reader.join();
  CHECK(describe_status(status) == "exited with code 0");
}
