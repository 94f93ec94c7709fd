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

}  // namespace ddp::test
