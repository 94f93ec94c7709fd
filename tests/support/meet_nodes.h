// SPDX-License-Identifier: MIT
//
// For tests in which the launchers of several nodes are threads with one store.
#pragma once

#include <chrono>
#include <string>

#include "ddp/base/time.h"
#include "ddp/store/tcp_server.h"
#include "launcher/nodes/meeting.h"
#include "launcher/nodes/patience.h"
#include "launcher/output/console.h"
#include "launcher/processes/signals.h"
#include "support/becomes_true.h"
#include "support/run_ranks.h"

namespace ddp::test {

inline launcher::NodePlan plan_of(int rank, int count, const TcpServer& server) {
  return {.rank = rank,
          .count = count,
          .store = server.endpoint(),
          .listening = server.endpoints(),
          .run_id = rank == 0 ? "job" : ""};
}

// The patience of a launcher whose console goes nowhere.
struct Waiting {
  explicit Waiting(Timeout timeout) : patience(timeout, signals, console) {}

  launcher::SignalReader signals;
  launcher::Console console{-1, -1};
  launcher::Patience patience;
};

inline launcher::Meeting meet(const launcher::NodePlan& plan, int workers,
                              Timeout timeout = std::chrono::seconds(20)) {
  Waiting waiting(timeout);
  const launcher::Node self{
      .host = "host" + std::to_string(plan.rank.value_or(9)), .launcher = 100, .workers = workers};
  return launcher::meet_nodes(plan, self, waiting.patience);
}

// The error of a launcher that does not wait for the others. It is another one if the store's
// thread answers late, so the launcher is started again until the error has this text.
inline std::string error_at_once(const launcher::NodePlan& plan, const std::string& text) {
  std::string error;
  (void)becomes_true([&] {
    error = error_of([&] { (void)meet(plan, 1, Timeout(0)); });
    return error.find(text) != std::string::npos;
  });
  return error;
}

}  // namespace ddp::test
