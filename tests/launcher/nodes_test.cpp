// SPDX-License-Identifier: MIT
//
// How the launchers of several nodes meet, run as threads with one store.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/farewell.h"
#include "launcher/nodes/meeting.h"
#include "launcher/nodes/node_watch.h"
#include "launcher/nodes/registration.h"
#include "launcher/processes/signals.h"
#include "support/forwarding_store.h"
#include "support/meet_nodes.h"
#include "support/run_ranks.h"

using Catch::Matchers::Contains;
using ddp::Endpoint;
using ddp::TcpServer;
using ddp::Timeout;
using ddp::test::error_at_once;
using ddp::test::error_of;
using ddp::test::expect;
using ddp::test::meet;
using ddp::test::plan_of;
using ddp::test::run_ranks;
using ddp::test::Waiting;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr Timeout kAtOnce{0};

}  // namespace

TEST_CASE("nodes meet and agree on the ranks of their workers", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(3, [&](int rank) {
    const Meeting meeting = meet(plan_of(rank, 3, server), rank + 1);
    expect(meeting.run_id == "job", "node 0's run id");
    expect(meeting.first_rank(2) == 3 && meeting.world_size() == 6, "ranks follow each other");
    expect(meeting.nodes[1].host == "host1", "in the order of nodes");
  });
}

TEST_CASE("nodes without a rank are numbered as they come", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  std::array<int, 3> ranks{};
  std::array<std::optional<NodeWatch>, 3> watches;  // the launchers live on
  run_ranks(3, [&](int i) {
    NodePlan plan = plan_of(i, 3, server);
    if (i > 0) plan.rank.reset();
    Meeting meeting = meet(plan, 1);
    ranks[static_cast<std::size_t>(i)] = meeting.self;
    watches[static_cast<std::size_t>(i)].emplace(std::move(meeting));
  });
  CHECK(ranks[0] == 0);
  CHECK(ranks[1] + ranks[2] == 3);
  NodePlan late = plan_of(1, 3, server);
  late.rank.reset();
  CHECK_THAT(error_of([&] { meet(late, 1); }), Contains("already has its 3 nodes"));
}

TEST_CASE("a node without a rank that stopped waiting may be started again", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(3, [&](int i) {
    ddp::TcpStore store(server.endpoint(), 10s);
    NodePlan plan = plan_of(i, 3, server);
    if (i > 0) plan.rank.reset();
    if (i == 1) {
      (void)store.get("ddp-launch/run_id");  // node 0 has arrived
      expect(!error_of([&] { meet(plan, 1, kAtOnce); }).empty(), "it does not wait");
      store.set("has stopped", "1");
    } else if (i == 2) {
      (void)store.get("has stopped");
    }
    expect(meet(plan, 1).nodes.size() == 3, "all are there");
  });
}

TEST_CASE("a missing node is named", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  CHECK_THAT(error_at_once(plan_of(0, 3, server), "nodes here"),
             Contains("gave up after 0 s (--timeout-start): 1/3 nodes here; missing node 1, 2; "
                      "listening on 127.0.0.1:"));
}

TEST_CASE("a launcher that waits says who has counted the nodes", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  NodePlan plan = plan_of(0, 3, server);
  plan.count_source = "srun started 3 processes";
  CHECK_THAT(error_at_once(plan, "nodes here"),
             Contains("missing node 1, 2") && Contains("; srun started 3 processes"));
}

TEST_CASE("node 0 tells by which of its addresses it can be reached", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  NodePlan plan = plan_of(0, 2, server);
  plan.store.host = "localhost";
  CHECK_THAT(error_at_once(plan, "nodes here"),
             Contains("listening on " + to_string(plan.store) + " (" +
                      to_string(server.endpoint()) + ")"));
}

TEST_CASE("a node rank that is taken and another job's store are refused", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const NodeWatch holder(meet(plan_of(0, 1, server), 1));
  Waiting waiting(20s);
  const Node other{.host = "b", .launcher = 7, .workers = 1};
  CHECK_THAT(error_of([&] { (void)meet_nodes(plan_of(0, 1, server), other, waiting.patience); }),
             Contains("node rank 0 is taken by host0 (launcher pid 100)"));
  NodePlan stranger = plan_of(1, 2, server);
  stranger.run_id = "another";
  CHECK_THAT(error_of([&] { meet(stranger, 1); }),
             Contains("serves job 'job', not 'another' (--rdzv_id)"));
}

TEST_CASE("the launchers of the next job wait until the store of the last one is gone", "[nodes]") {
  std::optional<TcpServer> server(std::in_place, Endpoint{"127.0.0.1", 0});
  std::array<std::optional<NodeWatch>, 2> last;
  run_ranks(2, [&](int rank) {
    last[static_cast<std::size_t>(rank)].emplace(meet(plan_of(rank, 2, *server), 1));
  });
  last[1]->leave();
  last[1].reset();
  const NodePlan first = plan_of(0, 2, *server);
  NodePlan numbered = plan_of(1, 2, *server), unnumbered = numbered, named = numbered;
  unnumbered.rank.reset();
  named.run_id = "job";
  for (NodePlan next : {numbered, unnumbered, named}) {
    run_ranks(2, [&](int rank) {
      if (rank == 1) {
        expect(meet(next, 1).nodes.size() == 2, "it waits, and meets the next node 0");
        return;
      }
      std::this_thread::sleep_for(300ms);
      const Endpoint endpoint = server->endpoint();
      server.reset();
      std::this_thread::sleep_for(100ms);
      server.emplace(endpoint);
      expect(meet(first, 1).nodes.size() == 2, "the next job");
    });
    ddp::TcpStore(server->endpoint(), 5s).add("ddp-launch/left", 1);
  }
}

TEST_CASE("a launcher that was killed while it waited is replaced, and no job begins before",
          "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const std::string ghost = serialize({.host = "ghost", .launcher = 5, .workers = 8}) + "unique\n";
  ddp::TcpStore(server.endpoint(), 5s).set("ddp-launch/node/1", ghost);
  int console_of_node0[2];
  REQUIRE(::pipe(console_of_node0) == 0);
  const ddp::FileDescriptor said(console_of_node0[0]), console(console_of_node0[1]);
  run_ranks(3, [&](int i) {
    NodePlan plan = plan_of(i, 3, server);
    if (i == 0) {
      SignalReader signals;
      Console shown(console.get(), console.get());
      Patience patience(40s, signals, shown);
      const Node self{.host = "host0", .launcher = 100, .workers = 1};
      expect(meet_nodes(plan, self, patience).world_size() == 3, "without the ghost");
      return;
    }
    plan.rank.reset();
    ddp::TcpStore store(server.endpoint(), 40s);
    if (i == 1) {
      std::string text;
      char byte = 0;
      while (text.find("node 1 (ghost) shows no sign of life") == std::string::npos) {
        expect(::read(said.get(), &byte, 1) == 1, "node 0 says who is dead");
        text += byte;
      }
      store.set("ghost is known", "1");
    } else {
      (void)store.get("ghost is known");
      (void)store.get("ddp-launch/node/2");  // now only the ghost keeps the job from beginning
    }
    expect(meet(plan, 1, 40s).world_size() == 3, "without the ghost");
  });
}

TEST_CASE("an agent's death ends the job that it has met, and no other", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const NodePlan plan = plan_of(1, 2, server);
  ddp::TcpStore store(server.endpoint(), 5s);
  store.set("ddp-launch/run_id", "job");
  tell_loss(plan, "host1", 100, "before they met");
  run_ranks(2, [&](int rank) { (void)meet(plan_of(rank, 2, server), 1); });
  tell_loss(plan, "host1", 99, "of another job");
  CHECK_FALSE(store.has("ddp-launch/lost"));
  tell_loss(plan, "host1", 100, "host1: the agent was killed");
  CHECK(store.find("ddp-launch/lost") == "host1: the agent was killed");
}

TEST_CASE("without a rank, a launcher serves the store that nobody serves any more", "[nodes]") {
  std::optional<TcpServer> last(std::in_place, Endpoint{"127.0.0.1", 0}), next;
  const Endpoint endpoint = last->endpoint();
  ddp::TcpStore(endpoint, 5s).add("ddp-launch/left", 1);  // its job ends
  NodePlan plan = plan_of(1, 1, *last);
  plan.rank.reset();
  const auto take_store = [&](NodePlan& own) {
    try {
      next.emplace(endpoint);
    } catch (const ddp::SystemError&) {
      return false;  // the last one is still there, and only answers late
    }
    own.rank = 0;
    own.run_id = "next";
    return true;
  };
  run_ranks(2, [&](int i) {
    if (i == 1) {
      std::this_thread::sleep_for(300ms);
      last.reset();
      return;
    }
    Waiting waiting(20s);
    const Node self{.host = "b", .launcher = 1, .workers = 2};
    const Meeting meeting = meet_nodes(plan, self, waiting.patience, take_store);
    expect(meeting.self == 0 && meeting.run_id == "next", "it is the next job's node 0");
  });
}

TEST_CASE("a node whose claim was stored, though nobody answered, claims no second rank",
          "[nodes]") {
  struct Mute final : ddp::test::ForwardingStore {
    using ForwardingStore::ForwardingStore;
    std::string compare_set(std::string_view key, std::string_view expected,
                            std::string_view desired) override {
      std::string now = ForwardingStore::compare_set(key, expected, desired);
      if (expected.empty() && now == desired) throw ddp::TimeoutError("no answer");
      return now;
    }
    std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }
  };
  const auto store = std::make_shared<ddp::HashStore>();
  store->set("node/1", serialize({.host = "other"}));
  const NodePlan plan{.rank = std::nullopt, .count = 3};
  Registration registration({.host = "self"});
  CHECK_THROWS_AS(registration.make(std::make_shared<Mute>(store), plan), ddp::TimeoutError);
  store->delete_key("node/1");
  CHECK(registration.make(store, plan) == 2);
  CHECK_FALSE(store->has("node/1"));
}

TEST_CASE("a node that finds another job's store writes nothing to it", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(3, [&](int rank) {
    NodePlan plan = plan_of(std::min(rank, 1), 2, server);
    if (rank < 2) {
      expect(meet(plan, 1).run_id == "job", "both nodes of the job are there");
    } else {
      plan.run_id = "another";
      expect(error_of([&] { meet(plan, 1); }).find("serves job 'job', not 'another'") !=
                 std::string::npos,
             "the stranger is sent away");
    }
  });
}

TEST_CASE("a node 0 that does not answer is named with each of its addresses", "[nodes]") {
  const NodePlan plan{.rank = 1, .count = 2, .store = {"127.0.0.1", 1}};
  CHECK_THAT(error_of([&] { meet(plan, 1, kAtOnce); }), Contains("node 0 does not answer") &&
                                                            Contains("127.0.0.1:1") &&
                                                            Contains("Connection refused"));
}

TEST_CASE("launchers with different flags do not start a job", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  NodePlan first = plan_of(0, 2, server);
  first.terms = "--max_restarts 0";
  CHECK_THAT(error_at_once(first, "nodes here"), Contains("missing node 1"));
  NodePlan second = plan_of(1, 2, server);
  second.terms = "--max_restarts 2";
  CHECK_THAT(error_of([&] { meet(second, 1); }),
             Contains("node 0 has --max_restarts 0, this node has --max_restarts 2"));
}

TEST_CASE("nodes that wait hear which one was refused, until it fits", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const auto wait_in_vain = [&](const std::string& text) {
    return error_at_once(plan_of(0, 3, server), text);
  };
  CHECK_THAT(wait_in_vain("nodes here"), !Contains("refused"));
  NodePlan other = plan_of(1, 3, server);
  other.terms = "--max_restarts 2";
  CHECK_THROWS(meet(other, 1));
  CHECK_THAT(wait_in_vain("; refused "),
             Contains("missing node 1, 2; ") &&
                 Contains("; refused host1: node 0 has , this node has --max_restarts 2: these"));
  (void)error_at_once(plan_of(1, 3, server), "nodes here");  // it fits, and waits in vain
  CHECK_THAT(wait_in_vain("nodes here"), !Contains("refused"));
}

TEST_CASE("a launcher that stops waiting may be started again", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const NodePlan plan = plan_of(0, 2, server);
  CHECK_THAT(error_at_once(plan, "nodes here"), Contains("missing node 1"));
  Waiting waiting(20s);
  ::kill(::getpid(), SIGTERM);
  CHECK_THAT(error_of([&] { (void)meet_nodes(plan, {.host = "b"}, waiting.patience); }),
             Contains("SIGTERM while waiting"));
  CHECK_FALSE(ddp::TcpStore(server.endpoint(), 5s).has("ddp-launch/node/0"));
}

TEST_CASE("a signal that ended a wait is still there, and so are those before it", "[nodes]") {
  SignalReader signals;
  CHECK_FALSE(signals.find(is_impatient));
  ::raise(SIGUSR1);
  CHECK_FALSE(signals.find(is_impatient));
  ::raise(SIGINT);
  CHECK(signals.find(is_impatient) == SIGINT);
  CHECK(signals.find(ends_job) == SIGUSR1);
  CHECK(signals.next() == SIGUSR1);
  CHECK(signals.next() == SIGINT);
  CHECK_FALSE(signals.next());
}
