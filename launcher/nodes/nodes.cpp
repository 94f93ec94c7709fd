// SPDX-License-Identifier: MIT
#include "launcher/nodes/nodes.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/resolve.h"
#include "ddp/base/number_in.h"
#include "ddp/base/rank_list.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_store.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/node_keys.h"
#include "launcher/nodes/node_life.h"
#include "launcher/nodes/registration.h"
#include "launcher/nodes/worker_keys.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenTries = std::chrono::seconds(1);
constexpr Timeout kBetweenLookUps{250};

constexpr const char* kOtherVersion =
    "a node of this job runs another launcher, or another version of ddp-launch";
constexpr const char* kRefused = "refused";  // "HOST: REASON" of the last node that did not fit

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

std::shared_ptr<Store> connect(const Endpoint& store) {
  return std::make_shared<PrefixStore>(
      kLauncherPrefix,
      std::make_shared<TcpStore>(store, TcpStoreOptions{.timeout = kBetweenTries, .spin = {}}));
}

std::shared_ptr<Store> connect(NodePlan& plan, Patience& patience, const TakeStore& take_store) {
  for (;;) {
    try {
      return connect(plan.store);
    } catch (const Error& error) {
      if (!plan.rank && take_store(plan)) continue;
      wait_for_node0(error, patience);
    }
  }
}

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

// The launchers of a job count themselves when they leave it.
bool is_over(Store& store) { return store.has(kLeftKey); }

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
  return fmt::format("{}/{} nodes here; {}{}{}{}", here, plan.count,
                     missing.empty() ? "" : "missing node " + number_list(missing) + "; ",
                     plan.rank == 0 ? "listening on " : "meeting at ", to_string(plan.store),
                     refused.empty() ? "" : "; refused " + refused);
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

// Node 0's view of who is there. It closes the meeting when all are, and live: a launcher that was
// killed while it waited must first be replaced.
class Gathering {
 public:
  Gathering(Store& store, int count)
      : store_(store), keys_(node_keys(count)), lives_(keys_.size()) {}

  void close_if_complete() {
    if (next_look_.passed()) look();
    if (!store_.check(keys_) || std::ranges::any_of(lives_, &NodeLife::is_dead)) return;
    std::string met;
    for (const std::string& key : keys_) {
      const std::optional<std::string> entry = store_.find(key);
      if (!entry) return;  // it has just left
      met += *entry;
    }
    store_.set(kMetKey, met);
  }

  // "; node 1 (gpu-b) shows no sign of life"; empty if all of them live.
  [[nodiscard]] std::string silent_nodes() const {
    std::string text;
    for (std::size_t rank = 0; rank < lives_.size(); ++rank) {
      if (!lives_[rank].is_dead()) continue;
      const Node node = parse_node(lives_[rank].entry());
      text += "; " + describe_node(static_cast<int>(rank), node.host) + " shows no sign of life";
    }
    return text;
  }

 private:
  void look() {
    next_look_ = Deadline::after(kSignPeriod);
    for (std::size_t rank = 0; rank < lives_.size(); ++rank) {
      const std::string entry = store_.find(keys_[rank]).value_or("");
      lives_[rank].look(entry, store_.add(alive_key(static_cast<int>(rank)), 0));
    }
  }

  Store& store_;
  std::vector<std::string> keys_;
  std::vector<NodeLife> lives_;  // by rank
  Deadline next_look_ = Deadline::after(Timeout(0));
};

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

Node read_node(std::istringstream& lines) {
  Node node;
  std::getline(lines, node.host);
  lines >> node.launcher >> node.workers;
  if (!lines) throw LaunchError(kOtherVersion);
  return node;
}

// What Gathering wrote.
std::vector<Node> parse_nodes(const std::string& met, int count) {
  std::istringstream lines(met);
  std::vector<Node> nodes;
  std::string unique;
  while (static_cast<int>(nodes.size()) < count) {
    nodes.push_back(read_node(lines));
    lines >> unique;
    lines.ignore();  // the end of its line
  }
  return nodes;
}

// Calls say(store), unless nobody is there or another job's store, which stays untouched.
template <class Say>
void tell(const NodePlan& plan, const Say& say) noexcept {
  try {
    const std::shared_ptr<Store> store = connect(plan.store);
    if (!agreed_run_id(*store, plan).empty()) say(*store);
  } catch (const std::exception&) {
    // Nobody hears it.
  }
}

void write_refusal(Store& store, const std::string& host, const LaunchError& reason) {
  store.set(kRefused, host + ": " + reason.what());
}

// Returns this node's rank; nothing if the job in this store ends meanwhile.
std::optional<int> join(const std::shared_ptr<Store>& store, const NodePlan& plan,
                        const std::string& host, Registration& registration, Patience& patience) {
  try {
    check_terms(*store, plan);
    std::optional<int> rank = registration.make(store, plan);
    while (!rank && !is_over(*store)) {
      patience.wait([&] { return registration.obstacle(); }, kBetweenLookUps);
      rank = registration.make(store, plan);
    }
    if (!rank) return std::nullopt;
    if (store->find(kRefused).value_or("").starts_with(host + ": ")) store->delete_key(kRefused);
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
std::optional<Meeting> try_to_meet(NodePlan& plan, const std::string& host,
                                   Registration& registration, Patience& patience,
                                   const TakeStore& take_store) {
  Meeting meeting;
  meeting.store = connect(plan, patience, take_store);
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
  const auto worker_port = number_in<std::uint16_t>(store.get("worker_port"));
  if (!worker_port) throw LaunchError(kOtherVersion);
  meeting.worker_port = *worker_port;
  meeting.nodes = parse_nodes(met, plan.count);
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
  return read_node(lines);
}

int Meeting::first_rank(int node) const {
  int sum = 0;
  for (int before = 0; before < node; ++before) {
    sum += nodes[static_cast<std::size_t>(before)].workers;
  }
  return sum;
}

void tell_refusal(const NodePlan& plan, const std::string& host,
                  const LaunchError& reason) noexcept {
  tell(plan, [&](Store& store) { write_refusal(store, host, reason); });
}

void tell_loss(const NodePlan& plan, const std::string& host, pid_t agent,
               const std::string& sentence) noexcept {
  tell(plan, [&](Store& store) {
    const std::string entry = fmt::format("{}\n{}\n", host, agent);
    const bool had_met = store.find(kMetKey).value_or("").find(entry) != std::string::npos;
    if (had_met) (void)store.compare_set(kLostKey, "", sentence);
  });
}

bool serves_ending_job(const Endpoint& store) noexcept try {
  return is_over(*connect(store));
} catch (const std::exception&) {
  return false;
}

// Abandons a connection on which nobody answers, or which is closed, and makes a new one: there may
// be a new node 0 with a new store.
Meeting meet_nodes(NodePlan plan, const Node& self, Patience& patience,
                   const TakeStore& take_store) {
  Registration registration(self);
  for (;;) {
    try {
      std::optional<Meeting> meeting =
          try_to_meet(plan, self.host, registration, patience, take_store);
      if (meeting) {
        registration.keep();
        return *std::move(meeting);
      }
      patience.wait([&] { return "an earlier job has yet to end at " + to_string(plan.store); },
                    kBetweenLookUps);
    } catch (const TimeoutError& error) {
      wait_for_node0(error, patience);
    } catch (const NetworkError& error) {
      wait_for_node0(error, patience);
    }
  }
}

}  // namespace ddp::launcher
