// SPDX-License-Identifier: MIT
//
// Which signals a training job handles: without a SignalGuard none.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>

#include "ddp/base/system/process_status.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/engine/signal_guard.h"
#include "support/engine.h"

using namespace ddp;
using test::error_of;

namespace {

constexpr std::array kSignals = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT};

void handle(int) {}

using Actions = std::array<struct sigaction, kSignals.size()>;

Actions actions() {
  Actions current = {};
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    test::expect(::sigaction(kSignals[i], nullptr, &current[i]) == 0, "to read an action");
  }
  return current;
}

void set(const Actions& wanted) {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &wanted[i], nullptr);
}

bool equal(const Actions& one, const Actions& other) {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (one[i].sa_handler != other[i].sa_handler) return false;
    if (one[i].sa_flags != other[i].sa_flags) return false;
    for (const int each : kSignals) {
      if (::sigismember(&one[i].sa_mask, each) != ::sigismember(&other[i].sa_mask, each)) {
        return false;
      }
    }
  }
  return true;
}

// While it lives, the program handles the signals in different ways of its own.
class OwnActions {
 public:
  OwnActions() : before_(actions()) {
    Actions own = {};
    own[0].sa_handler = handle;
    sigaddset(&own[0].sa_mask, SIGUSR2);
    own[1].sa_handler = SIG_IGN;
    own[2].sa_handler = SIG_DFL;
    own[2].sa_flags = SA_RESTART;
    own[3].sa_handler = handle;
    set(own);
  }
  ~OwnActions() { set(before_); }
  OwnActions(const OwnActions&) = delete;
  OwnActions& operator=(const OwnActions&) = delete;

 private:
  Actions before_;
};

}  // namespace

TEST_CASE("without a SignalGuard, a group and an engine leave signals alone", "[engine][signals]") {
  const OwnActions own;
  const Actions before = actions();
  for (const Backend backend : test::backends()) {
    if (backend == Backend::kShmTcp) continue;  // needs two hosts
    CAPTURE(to_string(backend));
    const auto store = std::make_shared<HashStore>();
    test::run_ranks(2, [&](int rank) {  // as a program does it, with the hang watch
      const auto group = init_process_group({.backend = backend,
                                             .device = DeviceChoice::kCpu,
                                             .rank = rank,
                                             .world_size = 2,
                                             .store = store,
                                             .ranks_are_threads = true});
      test::Model model(rank);
      DistributedDataParallel ddp(group, model.parameters);
      (void)ddp.begin_step();
      test::mark_all(ddp);
      ddp.wait();
      group->barrier().wait();
      test::expect(equal(actions(), before), "untouched while the engine lives");
    });
    CHECK(equal(actions(), before));
  }
}

TEST_CASE("while a SignalGuard exists, a signal is recorded as a request", "[engine][signals]") {
  struct sigaction before = {};
  REQUIRE(::sigaction(SIGUSR1, nullptr, &before) == 0);
  {
    SignalGuard guard;
    CHECK_FALSE(error_of([] { SignalGuard second; }).empty());
    CHECK_FALSE(guard.stop_requested());
    CHECK_FALSE(guard.take_report_request());
    ::raise(SIGUSR2);
    CHECK(guard.take_report_request());
    CHECK_FALSE(guard.take_report_request());
    CHECK_FALSE(guard.stop_requested());
    ::raise(SIGUSR1);
    CHECK(guard.stop_requested());
  }
  struct sigaction after = {};
  REQUIRE(::sigaction(SIGUSR1, nullptr, &after) == 0);
  CHECK(before.sa_handler == after.sa_handler);
  SignalGuard again;
  CHECK_FALSE(again.stop_requested());
  ::raise(SIGTERM);
  CHECK(again.stop_requested());
}

TEST_CASE("a SignalGuard restores how each of its signals was handled", "[engine][signals]") {
  const OwnActions own;
  const Actions before = actions();
  {
    const SignalGuard guard;
    const Actions guarded = actions();
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      CHECK(guarded[i].sa_handler != before[i].sa_handler);
    }
  }
  CHECK(equal(actions(), before));
}

// As if Ctrl-C had ended the `tee` of `train | tee log`, too.
TEST_CASE("a process that was asked to stop survives a write that nobody reads",
          "[engine][signals]") {
  struct sigaction before = {};
  ::sigaction(SIGPIPE, nullptr, &before);
  REQUIRE(before.sa_handler == SIG_DFL);
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  struct sigaction action = {};
  {
    const SignalGuard guard;
    ::sigaction(SIGPIPE, nullptr, &action);
    CHECK(action.sa_handler == SIG_DFL);
    ::raise(SIGTERM);
    CHECK(::write(ends[1], "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
  ::sigaction(SIGPIPE, nullptr, &action);
  CHECK(action.sa_handler == SIG_DFL);
  ::close(ends[1]);
}

TEST_CASE("a first SIGINT asks to stop, and a second one ends the process", "[engine][signals]") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);
    const SignalGuard guard;
    ::raise(SIGINT);
    if (guard.stop_signal() != SIGINT) ::_exit(1);
    ::raise(SIGTERM);  // the first one counts
    if (guard.stop_signal() != SIGINT) ::_exit(2);
    ::raise(SIGINT);
    ::_exit(3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(exit_code_of(status) == 128 + SIGINT);
}

TEST_CASE("a SIGINT that is ignored stays ignored", "[engine][signals]") {
  const OwnActions own;
  ::signal(SIGINT, SIG_IGN);
  const SignalGuard guard;
  ::raise(SIGINT);
  CHECK_FALSE(guard.stop_requested());
}
