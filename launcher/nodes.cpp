// SPDX-License-Identifier: MIT
#include "launcher/nodes.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <poll.h>

#include <sstream>

#include "ddp/base/error.h"
#include "ddp/base/resolve.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_store.h"
#include "launcher/launch_error.h"
#include "launcher/worker_keys.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kBetweenRemarks = std::chrono::seconds(5);
constexpr Timeout kBetweenTries = std::chrono::seconds(1);
constexpr Timeout kBetweenLooks{50};

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(ipv4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&ipv6.sin6_addr);
}

std::string node_key(int rank) { return "node/" + std::to_string(rank); }

// The state of a launcher that waits for others: when to say so, and when to give up.
class Patience {
 public:
  Patience(Timeout timeout, SignalReader& signals, Console& console)
      : end_(Deadline::after(timeout)), signals_(signals), console_(console) {}

  // Throws LaunchError once a signal has come that ends the job.
  void wait(Timeout time) {
    pollfd entry{signals_.fd(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(time.count()));
    while (const auto signal_number = signals_.next()) {
      if (!ends_job(*signal_number)) continue;
      throw LaunchError(signal_name(*signal_number) + " while waiting for the other nodes",
                        exit_code_after(*signal_number));
    }
  }

  void remark(const std::string& sentence) {
    if (!next_remark_.passed()) return;
    next_remark_ = Deadline::after(kBetweenRemarks);
    console_.say(sentence);
    console_.flush();
  }

  [[nodiscard]] bool is_over() const { return end_.passed(); }

 private:
  Deadline end_;
  Deadline next_remark_ = Deadline::after(kBetweenRemarks);
  SignalReader& signals_;
  Console& console_;
};

std::shared_ptr<Store> connect(const NodePlan& plan, Patience& patience) {
  for (;;) {
    try {
      return std::make_shared<PrefixStore>(
          kLauncherPrefix, std::make_shared<TcpStore>(
                               plan.store, TcpStoreOptions{.timeout = kBetweenTries, .spin = {}}));
    } catch (const Error& error) {
      const std::string why = describe(error);
      if (patience.is_over()) throw LaunchError("node 0 does not answer: " + why);
      patience.remark("waiting for node 0: " + why);
    }
    patience.wait(kBetweenLooks);
  }
}

// Returns this node's rank.
int register_self(Store& store, const NodePlan& plan, const Node& self) {
  const int rank = plan.rank ? *plan.rank : static_cast<int>(store.add("numbered", 1));
  if (rank >= plan.count) {
    throw LaunchError(
        fmt::format("the job at {} has its {} nodes already", to_string(plan.store), plan.count));
  }
  const std::string own = serialize(self);
  const std::string registered = store.compare_set(node_key(rank), "", own);
  if (registered == own) return rank;
  const Node other = parse_node(registered);
  throw LaunchError(fmt::format(
      "node rank {} is taken by {} (launcher pid {}): each node needs a --node_rank of its own, "
      "and a store (--master_port) serves one job",
      rank, other.host, other.launcher));
}

// Node 0's is everybody's; empty as long as it is not there.
std::string agreed_run_id(Store& store, const NodePlan& plan) {
  if (!store.has("run_id")) return "";
  std::string agreed = store.get("run_id");
  if (plan.run_id.empty() || agreed == plan.run_id) return agreed;
  throw LaunchError(fmt::format("the store at {} serves job '{}', not '{}' (--rdzv_id)",
                                to_string(plan.store), agreed, plan.run_id));
}

// Node 0's are everybody's.
void check_terms(Store& store, const NodePlan& plan) {
  const std::string agreed = store.get("terms");
  if (agreed == plan.terms) return;
  throw LaunchError(fmt::format(
      "node 0 has {}, this node {}: these are to be the same on all nodes", agreed, plan.terms));
}

std::vector<int> missing_nodes(Store& store, int count) {
  std::vector<int> missing;
  for (int rank = 0; rank < count; ++rank) {
    if (!store.has(node_key(rank))) missing.push_back(rank);
  }
  return missing;
}

std::string describe_waiting(const NodePlan& plan, const std::vector<int>& missing) {
  std::string ranks;
  for (const int rank : missing) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  const std::string where = plan.rank == 0 ? "listening on " : "meeting at ";
  return fmt::format("{}/{} nodes here; missing node {}; {}{}",
                     static_cast<std::size_t>(plan.count) - missing.size(), plan.count, ranks,
                     where, to_string(plan.store));
}

// Waits for node 0's word on which job this is, and registers this node if it is of that job:
// another's store stays untouched.
void join(Meeting& meeting, const NodePlan& plan, const Node& self, Patience& patience) {
  while ((meeting.run_id = agreed_run_id(*meeting.store, plan)).empty()) {
    const std::vector<int> missing = missing_nodes(*meeting.store, plan.count);
    if (patience.is_over()) throw LaunchError(describe_waiting(plan, missing));
    patience.remark(describe_waiting(plan, missing));
    patience.wait(kBetweenLooks);
  }
  check_terms(*meeting.store, plan);
  meeting.self = register_self(*meeting.store, plan, self);
}

// Who gives up makes room for another try.
void wait_for_others(const Meeting& meeting, const NodePlan& plan, Patience& patience) try {
  for (;;) {
    const std::vector<int> missing = missing_nodes(*meeting.store, plan.count);
    if (missing.empty()) return;
    if (patience.is_over()) throw LaunchError(describe_waiting(plan, missing));
    patience.remark(describe_waiting(plan, missing));
    patience.wait(kBetweenLooks);
  }
} catch (const LaunchError&) {
  meeting.store->delete_key(node_key(meeting.self));
  throw;
}

}  // namespace

std::string describe_node(int rank, const std::string& host) {
  return fmt::format("node {} ({})", rank, host);
}

void check_reachable(const Endpoint& store, int node_count) {
  const AddressList addresses = resolve_patiently(store, Deadline::after(std::chrono::seconds(1)));
  if (!is_loopback(*addresses->ai_addr)) return;
  throw LaunchError(
      fmt::format("{} is a loopback address, which no other node can reach; give an address of "
                  "node 0 in the network that the {} nodes share (--master_addr)",
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
  if (!lines) throw LaunchError("a launcher of another kind is in this job");
  return node;
}

int Meeting::first_rank(int node) const {
  int sum = 0;
  for (int before = 0; before < node; ++before) {
    sum += nodes[static_cast<std::size_t>(before)].workers;
  }
  return sum;
}

Meeting meet_nodes(const NodePlan& plan, const Node& self, SignalReader& signals,
                   Console& console) {
  Patience patience(plan.start_timeout, signals, console);
  Meeting meeting;
  meeting.store = connect(plan, patience);
  if (plan.rank == 0) {
    meeting.store->set("worker_port", std::to_string(plan.worker_port));
    meeting.store->set("terms", plan.terms);
    meeting.store->set("run_id", plan.run_id);
  }
  try {
    join(meeting, plan, self, patience);
    wait_for_others(meeting, plan, patience);
    const std::string port = meeting.store->get("worker_port");
    meeting.worker_port = static_cast<std::uint16_t>(std::stoi(port));
    for (int rank = 0; rank < plan.count; ++rank) {
      meeting.nodes.push_back(parse_node(meeting.store->get(node_key(rank))));
    }
  } catch (const NetworkError& error) {
    throw LaunchError("node 0 has left before all nodes were there: " + describe(error));
  }
  return meeting;
}

}  // namespace ddp::launcher
