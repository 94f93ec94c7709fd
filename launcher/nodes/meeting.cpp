// SPDX-License-Identifier: MIT
#include "launcher/nodes/meeting.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/rank_list.h"
#include "ddp/base/threads/run_until.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/gathering.h"
#include "launcher/nodes/launcher_store.h"
#include "launcher/nodes/node_keys.h"
#include "launcher/nodes/reachability.h"
#include "launcher/nodes/registration.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenTries{250};

constexpr Timeout kLongestAnswer{4000};

// A connect that lacks an address is this host's fault.
std::string why_not_met(const Error& error) {
  const std::string text = describe(error);
  const bool is_own_fault = text.find(error_text(EADDRNOTAVAIL)) != std::string::npos;
  return (is_own_fault ? "this host has no free port (ip_local_port_range), or no address of this "
                         "kind, to connect to node 0: "
                       : "node 0 does not answer: ") +
         text;
}

void wait_for_node0(const Error& error, Patience& patience) {
  patience.wait([&] { return why_not_met(error); });
}

// On a thread of its own, so that this launcher hears signals meanwhile.
std::shared_ptr<Store> open_store(std::vector<Endpoint> addresses, Timeout timeout,
                                  const std::function<void()>& look) {
  const auto store = std::make_shared<std::shared_ptr<Store>>();
  const auto open = [=, addresses = std::move(addresses)] {
    *store = open_launcher_store(addresses, timeout);
  };
  (void)run_until(Deadline::after(kLongestTimeout), open, look, Patience::kBetweenLooks);
  return *store;
}

// A network may be too slow for the first tries, so each takes twice the time of the last one.
// `state` is what is known of node 0 before.
std::shared_ptr<Store> connect(NodePlan& plan, std::string state, Patience& patience,
                               const TakeStore& take_store) {
  NameWatch name(plan.store);
  const auto look = [&] { patience.look([&] { return state; }); };
  for (Timeout timeout = kAnswerTimeout;; timeout = std::min(2 * timeout, kLongestAnswer)) {
    try {
      const Timeout left = std::max(patience.remaining(), kAnswerTimeout);
      return open_store(plan.store_addresses(), std::min(timeout, left), look);
    } catch (const Error& error) {
      if (!plan.rank && take_store(plan)) continue;
      state = why_not_met(error);
      if (!plan.rank) state += why_not_node0(plan.store, plan.addresses);
      patience.wait([&] { return state; });
      name.refresh(plan.addresses);
    }
  }
}

// A name may have further addresses, which are not this host's.
std::string describe_place(const NodePlan& plan) {
  const std::string name = to_string(plan.store);
  if (plan.rank != 0) return "meeting at " + name;
  std::string bound;
  for (const Endpoint& each : plan.listening)
    bound += (bound.empty() ? "" : ", ") + to_string(each);
  return "listening on " + name + (bound == name ? "" : " (" + bound + ")");
}

std::string describe_waiting(Store& store, const NodePlan& plan) {
  std::vector<int> missing;
  for (int rank = 0; rank < plan.count; ++rank) {
    if (!store.has(node_key(rank))) missing.push_back(rank);
  }
  const auto here = static_cast<std::size_t>(plan.count) - missing.size();
  const std::string refused = last_refusal(store);
  return fmt::format("{}/{} nodes here; {}{}{}{}", here, plan.count,
                     missing.empty() ? "" : "missing node " + number_list(missing) + "; ",
                     describe_place(plan), refused.empty() ? "" : "; refused " + refused,
                     plan.count_source.empty() ? "" : "; " + plan.count_source);
}

// Only for a job that is this node's, too; another job's store stays untouched.
std::string wait_for_run_id(Store& store, const NodePlan& plan, Patience& patience) {
  for (;;) {
    std::string run_id = agreed_run_id(store, plan);
    if (!run_id.empty()) return run_id;
    patience.wait([&] { return describe_waiting(store, plan); });
  }
}

// Returns the entries of all nodes.
std::string wait_for_others(Store& store, const NodePlan& plan, int self,
                            Registration& registration, Patience& patience) {
  Gathering gathering(store, plan.count);
  for (;;) {
    registration.show_life();
    if (self == 0) gathering.close_if_complete();
    if (std::optional<std::string> met = store.find(kMetKey)) return *std::move(met);
    patience.wait([&] { return describe_waiting(store, plan) + gathering.silent_nodes(); });
  }
}

// Returns this node's rank; nothing if the job in this store ends meanwhile.
std::optional<int> join(const std::shared_ptr<Store>& store, const NodePlan& plan,
                        const std::string& host, Registration& registration, Patience& patience) {
  try {
    check_terms(*store, plan);
    std::optional<int> rank = registration.make(store, plan);
    while (!rank && !is_over(*store)) {
      patience.wait([&] { return registration.obstacle(); }, kBetweenTries);
      rank = registration.make(store, plan);
    }
    if (rank) withdraw_refusal(*store, host);
    return rank;
  } catch (const LaunchError& refusal) {
    try {
      write_refusal(*store, host, refusal);
    } catch (const std::exception&) {
      // The store does not answer.
    }
    throw;
  }
}

// Nothing if the store is that of an earlier job, whose node 0 has not quite ended yet.
std::optional<Meeting> try_to_meet(NodePlan& plan, const std::string& state,
                                   const std::string& host, Registration& registration,
                                   Patience& patience, const TakeStore& take_store) {
  Meeting meeting;
  meeting.store = connect(plan, state, patience, take_store);
  Store& store = *meeting.store;
  if (is_over(store) && !registration.is_in(store)) return std::nullopt;
  if (plan.rank == 0) announce(store, plan);
  meeting.run_id = wait_for_run_id(store, plan, patience);
  const std::optional<int> rank = join(meeting.store, plan, host, registration, patience);
  if (!rank) return std::nullopt;
  meeting.self = *rank;
  const std::string met = wait_for_others(store, plan, *rank, registration, patience);
  if (!registration.is_among(met)) {
    throw LaunchError(
        fmt::format("the nodes of the job have met without this one: another launcher has become "
                    "node {}, since this one showed no sign of life",
                    *rank));
  }
  meeting.worker_port = agreed_worker_port(store);
  meeting.nodes = parse_nodes(met, plan.count);
  return meeting;
}

}  // namespace

int Meeting::first_rank(int node) const {
  int sum = 0;
  for (int before = 0; before < node; ++before) {
    sum += nodes[static_cast<std::size_t>(before)].workers;
  }
  return sum;
}

// Abandons a connection on which nobody answers, or which is closed, and makes a new one: there may
// be a new node 0 with a new store.
Meeting meet_nodes(NodePlan plan, const Node& self, Patience& patience,
                   const TakeStore& take_store) {
  Registration registration(self);
  std::string state = "node 0 has not answered yet at " + to_string(plan.store);
  for (;;) {
    try {
      std::optional<Meeting> meeting =
          try_to_meet(plan, state, self.host, registration, patience, take_store);
      if (meeting) {
        registration.keep();
        return *std::move(meeting);
      }
      state = "an earlier job has yet to end at " + to_string(plan.store);
      patience.wait([&] { return state; }, kBetweenTries);
    } catch (const TimeoutError& error) {
      wait_for_node0(error, patience);
    } catch (const NetworkError& error) {
      wait_for_node0(error, patience);
    }
  }
}

}  // namespace ddp::launcher
