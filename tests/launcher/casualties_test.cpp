// SPDX-License-Identifier: MIT
//
// Finding the rank of a generation that failed first, and the reason why a job was asked to end,
// without processes.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <thread>
#include <vector>

#include "launcher/run/start_watch.h"
#include "launcher/run/stop_order.h"
#include "launcher/verdict/casualties.h"

using ddp::Clock;
using ddp::Timeout;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

Ending exited(int rank, int code) {
  return {.rank = rank, .pid = 100 + rank, .status = W_EXITCODE(code, 0)};
}

Ending killed(int rank, int signal_number) {
  return {.rank = rank, .pid = 100 + rank, .status = W_EXITCODE(0, signal_number)};
}

// A rank whose error record says that a peer caused its failure.
Ending blames_peer(int rank) {
  Ending ending = exited(rank, 1);
  ending.record = ddp::ErrorRecord{.message = "rank 2 has left", .caused_by_peer = true};
  return ending;
}

void wait_for_end_of_patience(const Casualties& casualties) {
  const ddp::Deadline deadline = ddp::Deadline::after(10s);
  while (!casualties.is_patience_over() && !deadline.passed()) std::this_thread::sleep_for(10ms);
  REQUIRE(casualties.is_patience_over());
}

}  // namespace

TEST_CASE("workers that end with success are not failures", "[casualties]") {
  Casualties casualties;
  casualties.record(exited(0, 0));
  Ending stopped = killed(1, SIGTERM);
  stopped.was_requested = true;
  casualties.record(stopped);
  CHECK(casualties.count() == 2);
  CHECK_FALSE(casualties.any_failed());
  CHECK_FALSE(casualties.knows_cause());
  CHECK_FALSE(casualties.has_seen_failure());
}

TEST_CASE("after a worker that blames a peer, the launcher waits for the cause", "[casualties]") {
  Casualties casualties;
  casualties.record(exited(0, 0));
  casualties.record(blames_peer(1));
  CHECK(casualties.any_failed());
  CHECK_FALSE(casualties.knows_cause());
  const Timeout patience = casualties.see_failure({});
  CHECK_FALSE(casualties.is_patience_over());
  casualties.record(exited(2, 7));
  CHECK(casualties.knows_cause());
  const WorkerFailure failure = casualties.describe(4, Clock::now());
  CHECK(failure.first.rank == 2);
  CHECK(failure.first.when == Ending::When::kBefore);
  CHECK(failure.others == 2);  // rank 0 had finished
  CHECK(casualties.finished() == std::vector{0});

  Casualties others;
  others.record(exited(2, 7));
  CHECK(others.see_failure({}) < patience);
}

TEST_CASE("ranks that fail by themselves, and alike, did not stop because of the first",
          "[casualties]") {
  const auto refuses = [](int rank, const char* message) {
    Ending ending = exited(rank, 2);
    ending.record = ddp::ErrorRecord{.message = message};
    return ending;
  };
  Casualties casualties;
  casualties.record(refuses(1, "no such flag"));
  casualties.record(refuses(0, "no such flag"));
  (void)casualties.see_failure({});
  casualties.record(refuses(2, "no such flag"));
  casualties.record(refuses(3, "no memory"));
  casualties.record(blames_peer(4));
  casualties.record(exited(5, 2));
  casualties.record(exited(7, 0));
  wait_for_end_of_patience(casualties);
  casualties.record(refuses(6, "no such flag"));
  const WorkerFailure failure = casualties.describe(8, Clock::now());
  CHECK(failure.alike == 2);
  CHECK(failure.others == 4);
}

TEST_CASE("PyTorch's records do not say whether a peer is the cause, so that is waited for",
          "[casualties]") {
  Ending failure = exited(0, 1);
  failure.record = ddp::ErrorRecord{.message = "connection closed", .tells_cause = false};
  Casualties casualties;
  casualties.record(failure);
  CHECK(casualties.knows_cause());
  CHECK_FALSE(casualties.is_cause_certain());
  CHECK(casualties.see_failure({}) == 1s);
  Casualties others;
  others.record(exited(0, 1));
  CHECK(others.is_cause_certain());
  CHECK(others.see_failure({}) < 1s);
}

TEST_CASE("a worker that is signalled because of a failure is not its cause", "[casualties]") {
  Casualties casualties;
  casualties.record(blames_peer(0));
  casualties.see_failure({102});
  wait_for_end_of_patience(casualties);
  casualties.record(killed(1, SIGTERM));
  CHECK_FALSE(casualties.knows_cause());
  CHECK(casualties.describe(3, Clock::now()).first.rank == 0);
  casualties.record(exited(2, 7));  // was already ending when the failure was seen
  CHECK(casualties.knows_cause());
  const Ending first = casualties.describe(3, Clock::now()).first;
  CHECK(first.rank == 2);
  CHECK(first.when == Ending::When::kFirst);
}

TEST_CASE("workers that are killed because they did not end are listed in order", "[casualties]") {
  Casualties casualties;
  for (const int rank : {3, 1, 2}) {
    Ending ending = killed(rank, rank == 2 ? SIGTERM : SIGKILL);
    ending.was_requested = true;
    casualties.record(ending);
  }
  casualties.record(killed(0, SIGKILL));
  CHECK(casualties.killed_on_request() == std::vector{1, 3});
}

TEST_CASE("ranks that wait in vain for an ended rank are named once", "[start-watch]") {
  StartWatch watch;
  CHECK_FALSE(watch.next());
  watch.note_absent(3);
  watch.note_absent(1);
  CHECK(watch.next());
  CHECK_FALSE(watch.is_due());
  CHECK(watch.look({}).empty());
  CHECK(watch.look({0}).empty());
  CHECK(watch.look({}).empty());  // by now the rank has met the others
  CHECK(watch.look({0, 2}).empty());
  CHECK(watch.look({0}) ==
        "ranks 1, 3 ended with code 0 without init_process_group, where rank 0 waits for the time "
        "that the program or DDP_START_TIMEOUT sets");
  CHECK_FALSE(watch.next());
  watch.note_absent(2);
  CHECK_FALSE(watch.next());
}

TEST_CASE("without an order, no signal counts as obeyed", "[stop-order]") {
  StopOrder order;
  for (const int signal_number : {SIGTERM, SIGINT, SIGUSR1, SIGKILL}) {
    CHECK_FALSE(order.asks_for(signal_number, true));
  }
  CHECK_FALSE(order.confirm(SIGTERM));
  CHECK_FALSE(order.is_from_keyboard());
}

TEST_CASE("a request to a worker is not one to the launcher", "[stop-order]") {
  StopOrder order;
  order.note_request_to_worker();
  CHECK(order.is_stop());
  CHECK_FALSE(order.is_requested());
  CHECK_FALSE(order.asks_for(SIGUSR1, false));  // nobody has sent it that signal
  CHECK(order.request());                       // so a SIGUSR1 to the launcher is still the first
  CHECK(order.asks_for(SIGUSR1, false));
}

TEST_CASE("after a request, workers may end by SIGUSR1, SIGTERM or the launcher's SIGKILL",
          "[stop-order]") {
  StopOrder order;
  CHECK(order.request());
  CHECK_FALSE(order.request());
  CHECK(order.asks_for(SIGUSR1, false));
  CHECK(order.asks_for(SIGTERM, false));  // as ddp-launch does
  CHECK_FALSE(order.asks_for(SIGINT, false));
  CHECK_FALSE(order.asks_for(SIGKILL, false));
  CHECK(order.asks_for(SIGKILL, true));
}

TEST_CASE("after a signal to this launcher, workers may end by it or by SIGTERM", "[stop-order]") {
  StopOrder order;
  order.interrupt(SIGINT);
  CHECK(order.interrupted_by() == SIGINT);
  CHECK(order.is_from_keyboard());
  CHECK(order.asks_for(SIGINT, false));
  CHECK(order.asks_for(SIGTERM, false));
  CHECK_FALSE(order.asks_for(SIGHUP, false));
  CHECK_FALSE(order.is_by_nodes());
}

TEST_CASE("of several late signals the first one counts", "[stop-order]") {
  StopOrder order;
  order.note_late(SIGTERM);
  order.note_late(SIGINT);
  CHECK(order.late_signal() == SIGTERM);
}

TEST_CASE("a signal that follows one that stops the job is not late", "[stop-order]") {
  StopOrder order;
  order.interrupt(SIGTERM);
  order.note_late(SIGINT);
  CHECK_FALSE(order.late_signal());
}

TEST_CASE("a signal that all launchers get counts as this one's, too", "[stop-order]") {
  StopOrder order;
  order.follow(SIGTERM);
  CHECK(order.is_by_nodes());
  CHECK(order.signal() == SIGTERM);
  CHECK_FALSE(order.interrupted_by());
  CHECK_FALSE(order.confirm(SIGINT));
  CHECK(order.confirm(SIGTERM));
  CHECK(order.interrupted_by() == SIGTERM);
  CHECK_FALSE(order.confirm(SIGTERM));
}

TEST_CASE("after an end on another node, no signal counts as obeyed", "[stop-order]") {
  StopOrder order;
  order.follow(std::nullopt);
  CHECK(order.is_by_nodes());
  CHECK_FALSE(order.asks_for(SIGTERM, false));
  CHECK_FALSE(order.asks_for(SIGKILL, true));
}
