// SPDX-License-Identifier: MIT
#include "launcher/nodes/nodes.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/resolve.h"
#include "ddp/base/rank_list.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_store.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/worker_keys.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenTries = std::chrono::seconds(1);
constexpr Timeout kBetweenLookUps{250};

constexpr const char* kRefused = "refused";  // "HOST: REASON" of the last node that did not fit

std::string node_key(int rank) { return "node/" + std::to_string(rank); }

void wait_for_node0(const Error& error, Patience& patience) {
  patience.wait([&] { return "node 0 does not answer: " + describe(error); });
}

AddressList find_node0(const Endpoint& store, Patience& patience) {
  const Deadline late = Deadline::after(kLateName);
  for (;;) {
    try {
      return resolve(store, 0, Deadline::after(kBetweenTries));
    } catch (const NetworkError& error) {
      if (late.passed()) throw;
      patience.wait([&] { return error.what(); }, kBetweenLookUps);
    }
  }
}

std::shared_ptr<Store> connect(const NodePlan& plan, Patience& patience) {
  for (;;) {
    try {
      return std::make_shared<PrefixStore>(
          kLauncherPrefix, std::make_shared<TcpStore>(
                               plan.store, TcpStoreOptions{.timeout = kBetweenTries, .spin = {}}));
    } catch (const Error& error) {
      wait_for_node0(error, patience);
    }
  }
}

// Makes the entry unique, since host names and pids repeat among containers.
std::string unique_line() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}\n", random(), random());
}

// This node's entry in the store, by which the others know it. The destructor removes it unless it
// is kept.
class Registration {
 public:
  explicit Registration(const Node& self) : own_(serialize(self) + unique_line()) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  ~Registration() {
    try {
      if (store_) remove();
    } catch (const std::exception&) {
      // The store does not answer, so nobody can be told.
    }
  }

  // Returns this node's rank: the requested one, or the first free one. Safe to repeat after a lost
  // answer.
  int make(std::shared_ptr<Store> store, const NodePlan& plan) {
    store_ = std::move(store);
    if (plan.rank) return take(*plan.rank);
    for (rank_ = 1; rank_ < plan.count; ++rank_) {
      if (claim() == own_) return rank_;
    }
    throw LaunchError(
        fmt::format("the job at {} already has its {} nodes", to_string(plan.store), plan.count));
  }

  void keep() { store_.reset(); }

 private:
  int take(int rank) {
    rank_ = rank;
    const std::string registered = claim();
    if (registered == own_) return rank;
    const Node other = parse_node(registered);
    throw LaunchError(fmt::format(
        "node rank {} is taken by {} (launcher pid {}): each node needs a --node_rank of its own, "
        "and a store (--master_port) serves one job",
        rank, other.host, other.launcher));
  }

  // Returns the entry that now holds this rank.
  [[nodiscard]] std::string claim() { return store_->compare_set(node_key(rank_), "", own_); }

  // A claim whose answer was lost may or may not be stored.
  void remove() {
    const std::string key = node_key(rank_);
    if (store_->find(key) == own_) store_->delete_key(key);
  }

  std::string own_;
  std::shared_ptr<Store> store_;
  int rank_ = 0;
};

// Node 0's run id, which all nodes use; empty until it is there.
std::string agreed_run_id(Store& store, const NodePlan& plan) {
  std::string agreed = store.find("run_id").value_or("");
  if (agreed.empty()) return agreed;
  if (plan.run_id.empty() || agreed == plan.run_id) return agreed;
  throw LaunchError(fmt::format("the store at {} serves job '{}', not '{}' (--rdzv_id)",
                                to_string(plan.store), agreed, plan.run_id));
}

// Node 0's terms, which must be the same on all nodes.
void check_terms(Store& store, const NodePlan& plan) {
  const std::string agreed = store.get("terms");
  if (agreed == plan.terms) return;
  throw LaunchError(
      fmt::format("node 0 has {}, this node has {}: these flags must be equal on all nodes", agreed,
                  plan.terms));
}

std::vector<std::string> node_keys(int count) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < count; ++rank) keys.push_back(node_key(rank));
  return keys;
}

std::string describe_waiting(Store& store, const NodePlan& plan) {
  std::vector<int> missing;
  for (int rank = 0; rank < plan.count; ++rank) {
    if (!store.has(node_key(rank))) missing.push_back(rank);
  }
  const auto here = static_cast<std::size_t>(plan.count) - missing.size();
  const std::string refused = store.find(kRefused).value_or("");
  return fmt::format("{}/{} nodes here; missing node {}; {}{}{}", here, plan.count,
                     number_list(missing), plan.rank == 0 ? "listening on " : "meeting at ",
                     to_string(plan.store), refused.empty() ? "" : "; refused " + refused);
}

void announce(Store& store, const NodePlan& plan) {
  store.set("worker_port", std::to_string(plan.worker_port));
  store.set("terms", plan.terms);
  store.set("run_id", plan.run_id);
}

// Only for a job that is this node's, too; another job's store stays untouched.
std::string wait_for_run_id(Store& store, const NodePlan& plan, Patience& patience) {
  for (;;) {
    std::string run_id = agreed_run_id(store, plan);
    if (!run_id.empty()) return run_id;
    patience.wait([&] { return describe_waiting(store, plan); });
  }
}

void wait_for_others(Store& store, const NodePlan& plan, Patience& patience) {
  const std::vector<std::string> keys = node_keys(plan.count);
  while (!store.check(keys)) {
    patience.wait([&] { return describe_waiting(store, plan); });
  }
}

// The others, who wait for this node, would otherwise not hear of it.
void tell_refusal(Store& store, const std::string& host, const LaunchError& reason) noexcept {
  try {
    store.set(kRefused, host + ": " + reason.what());
  } catch (const std::exception&) {
    // The store does not answer.
  }
}

// Returns this node's rank.
int join(const std::shared_ptr<Store>& store, const NodePlan& plan, const std::string& host,
         Registration& registration) {
  try {
    check_terms(*store, plan);
    const int rank = registration.make(store, plan);
    if (store->find(kRefused).value_or("").starts_with(host + ": ")) store->delete_key(kRefused);
    return rank;
  } catch (const LaunchError& refusal) {
    tell_refusal(*store, host, refusal);
    throw;
  }
}

Meeting try_to_meet(const NodePlan& plan, const std::string& host, Registration& registration,
                    Patience& patience) {
  Meeting meeting;
  meeting.store = connect(plan, patience);
  Store& store = *meeting.store;
  if (plan.rank == 0) announce(store, plan);
  meeting.run_id = wait_for_run_id(store, plan, patience);
  meeting.self = join(meeting.store, plan, host, registration);
  wait_for_others(store, plan, patience);
  meeting.worker_port = static_cast<std::uint16_t>(std::stoi(store.get("worker_port")));
  for (int rank = 0; rank < plan.count; ++rank) {
    meeting.nodes.push_back(parse_node(store.get(node_key(rank))));
  }
  return meeting;
}

}  // namespace

std::string describe_node(int rank, const std::string& host) {
  return fmt::format("node {} ({})", rank, host);
}

void check_reachable(const Endpoint& store, int node_count, Patience& patience) {
  const AddressList addresses = find_node0(store, patience);
  if (!is_loopback(*addresses->ai_addr)) return;
  throw LaunchError(
      fmt::format("{} is a loopback address, which no other node can reach; give an address of "
                  "node 0 in the network that the {} nodes share (--master_addr); to try several "
                  "nodes on one machine, give one of "
                  "those that `hostname -I` prints",
                  store.host, node_count));
}

std::string serialize(const Node& node) {
  return fmt::format("{}\n{}\n{}\n", node.host, node.launcher, node.workers);
}

Node parse_node(const std::string& text) {
  std::istringstream lines(text);
  Node node;
  std::getline(lines, node.host);
  lines >> node.launcher >> node.workers;
  if (!lines) {
    throw LaunchError("a node of this job runs another launcher, or another version of ddp-launch");
  }
  return node;
}

int Meeting::first_rank(int node) const {
  int sum = 0;
  for (int before = 0; before < node; ++before) {
    sum += nodes[static_cast<std::size_t>(before)].workers;
  }
  return sum;
}

// Abandons a connection on which nobody answers and makes a new one: there may be a new node 0 with
// a new store.
Meeting meet_nodes(const NodePlan& plan, const Node& self, Patience& patience) {
  Registration registration(self);
  for (;;) {
    try {
      Meeting meeting = try_to_meet(plan, self.host, registration, patience);
      registration.keep();
      return meeting;
    } catch (const TimeoutError& error) {
      wait_for_node0(error, patience);
    } catch (const NetworkError& error) {
      throw LaunchError("node 0 has left before all nodes were there: " + describe(error));
    }
  }
}

}  // namespace ddp::launcher
