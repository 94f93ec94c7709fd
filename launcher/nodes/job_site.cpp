// SPDX-License-Identifier: MIT
#include "launcher/nodes/job_site.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/system/host_name.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/launcher_store.h"
#include "launcher/nodes/meeting.h"
#include "launcher/nodes/node_watch.h"
#include "launcher/nodes/patience.h"
#include "launcher/nodes/reachability.h"
#include "launcher/nodes/store_port.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kUntilNameChanges{1000};

std::string random_id() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits))) {
    throw SystemError("cannot draw a random id", errno);
  }
  return fmt::format("{:016x}", bits);
}

// If it is no launcher, the nodes would wait for it in vain.
void remark_on_port_holder(std::span<const Endpoint> addresses, Console& console) {
  const std::string holder = holder_of(addresses);
  if (holder.empty()) return;
  for (const char* own : {"ddp-launch", "ddp-agent"}) {
    if (holder.find(own) != std::string::npos) return;
  }
  console.say(
      fmt::format("{} is held by {}: unless that is a launcher of this job, the nodes "
                  "cannot meet there; choose another port",
                  to_string(addresses.front()), holder));
}

std::string describe_elsewhere(const NodeOptions& options, std::span<const Endpoint> addresses) {
  const bool is_flag = options.count_source.empty();
  return fmt::format(
      "this is node 0{}, but {} leads to {}, which this host does not have; asking again, since "
      "the name may change{}",
      is_flag ? " (--node_rank)" : "", options.endpoint.host, addresses.front().host,
      is_flag ? "" : "; " + options.count_source);
}

// Null if the addresses are another host's, or if another process on this host was first, on which
// it remarks if there is a console.
std::unique_ptr<TcpServer> try_to_host(std::span<const Endpoint> addresses,
                                       Console* console = nullptr) {
  try {
    return std::make_unique<TcpServer>(addresses);
  } catch (const SystemError& error) {
    const bool is_taken = error.error_number() == EADDRINUSE;
    if (is_taken && console != nullptr) remark_on_port_holder(addresses, *console);
    const bool is_anothers = error.error_number() == EADDRNOTAVAIL || is_taken;
    if (is_anothers) return nullptr;
    throw;
  }
}

// Waits until an earlier job, which is ending, has given the port up, and looks the name again up
// that leads elsewhere: a host that was just started may still be known by its last address.
std::unique_ptr<TcpServer> host_as_node0(const NodeOptions& options,
                                         std::vector<Endpoint>& addresses, Patience& patience) {
  const Endpoint& name = options.endpoint;
  const Deadline late = Deadline::after(kLateName);
  for (;;) {
    if (auto server = try_to_host(addresses)) return server;
    if (leads_elsewhere(name, addresses)) {
      if (late.passed()) return serve_store(addresses, options.count);
      patience.wait([&] { return describe_elsewhere(options, addresses); }, kUntilNameChanges);
      addresses = find_node0(name, options.count, patience);
    } else {
      if (!serves_ending_job(addresses)) return serve_store(addresses, options.count);
      patience.wait([&] { return "an earlier job has yet to end at " + to_string(name); });
    }
  }
}

// Where rank 0 is to listen (--store worker). The port (0: any) is free on every interface now,
// since programs may bind any of them. It stays unbound, so another process may take it before rank
// 0 does. The server is only started because serve_store() explains what is wrong with a port.
Endpoint choose_worker_port(const Endpoint& wanted) {
  const Endpoint everywhere{"", wanted.port};
  return {wanted.host, serve_store(std::span(&everywhere, 1))->endpoint().port};
}

JobSite open_on_one_node(const NodeOptions& options, StoreHost host, const JobLayout& assumed) {
  JobSite site{.store = nullptr, .nodes = std::make_unique<NoOtherNodes>(), .layout = assumed};
  if (host == StoreHost::kAgent) {
    site.store = serve_store(std::span(&options.endpoint, 1));
  }
  site.layout.store = site.store ? site.store->endpoint() : choose_worker_port(options.endpoint);
  site.layout.run_id = options.run_id.value_or(random_id());
  site.layout.launch_id = random_id();
  return site;
}

void check_rank_is_said(const NodeOptions& options) {
  if (options.rank || options.backend == NodeOptions::Backend::kC10d) return;
  throw LaunchError(fmt::format(
      "--nnodes={}: give the number of this node (--node_rank=0 to {}), or let nodes be "
      "numbered as they come (--rdzv_backend=c10d)",
      options.count, options.count - 1));
}

// `server` is null unless this node hosts the store.
NodePlan plan_node(const NodeOptions& options, const WorkerPlan& workers,
                   const std::vector<Endpoint>& addresses, const TcpServer* server) {
  const char* host = workers.store_host == StoreHost::kAgent ? "agent" : "worker";
  NodePlan plan{.rank = options.rank,
                .count = options.count,
                .count_source = options.count_source,
                .store = options.endpoint,
                .addresses = addresses,
                .worker_port = options.endpoint.port,
                .run_id = options.run_id.value_or(""),
                .terms = fmt::format("--nnodes {} --max_restarts {} --store {}", options.count,
                                     workers.max_restarts, host)};
  if (server == nullptr) return plan;
  plan.listening = server->endpoints();
  if (!plan.rank) plan.rank = 0;
  if (plan.run_id.empty()) plan.run_id = random_id();
  // If the workers host their own store, they do not meet where the launchers do.
  if (workers.store_host == StoreHost::kWorker) {
    plan.worker_port = choose_worker_port({options.endpoint.host, 0}).port;
  }
  return plan;
}

JobLayout layout_after(const Meeting& meeting, const JobLayout& assumed) {
  JobLayout layout = assumed;
  layout.node_rank = meeting.self;
  layout.first_rank = meeting.first_rank(meeting.self);
  layout.world_size = meeting.world_size();
  layout.store.port = meeting.worker_port;
  layout.run_id = meeting.run_id;
  layout.launch_id = random_id();
  return layout;
}

}  // namespace

JobSite open_site(const NodeOptions& options, const WorkerPlan& workers, const JobLayout& assumed,
                  SignalReader& signals, Console& console) {
  if (options.count == 1) return open_on_one_node(options, workers.store_host, assumed);
  check_rank_is_said(options);
  Patience patience(options.start_timeout, signals, console);
  std::vector<Endpoint> addresses = options.on_one_host
                                        ? std::vector{options.endpoint}
                                        : find_node0(options.endpoint, options.count, patience);
  JobSite site;
  if (options.rank == 0) site.store = host_as_node0(options, addresses, patience);
  if (!options.rank && has_all(addresses)) site.store = try_to_host(addresses, &console);
  const auto take_store = [&](NodePlan& plan) {
    const std::vector<Endpoint> own = plan.store_addresses();
    if (site.store || !has_all_that_live(own) || !(site.store = try_to_host(own))) return false;
    plan = plan_node(options, workers, plan.addresses, site.store.get());
    return true;
  };
  Meeting meeting =
      meet_nodes(plan_node(options, workers, addresses, site.store.get()),
                 {.host = host_name(), .launcher = ::getpid(), .workers = assumed.local_world_size},
                 patience, take_store);
  site.layout = layout_after(meeting, assumed);
  site.nodes = std::make_unique<NodeWatch>(std::move(meeting), SignsOfLife(), [&signals] {
    return signals.find(is_impatient).has_value();
  });
  return site;
}

}  // namespace ddp::launcher
