// SPDX-License-Identifier: MIT
//
// What the launchers of several nodes, run as threads with one store, tell each other about a job:
// failures, signals, ends, and nodes that vanish.
#include <poll.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/store/prefix_store.h"
#include "ddp/store/store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/node_watch.h"
#include "launcher/nodes/worker_keys.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/meet_nodes.h"
#include "support/observed_store.h"
#include "support/relay.h"
#include "support/run_ranks.h"

using Catch::Matchers::Contains;
using ddp::Endpoint;
using ddp::TcpServer;
using ddp::Timeout;
using ddp::test::expect;
using ddp::test::Gate;
using ddp::test::meet;
using ddp::test::ObservedStore;
using ddp::test::plan_of;
using ddp::test::Relay;
using ddp::test::run_ranks;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Waits until the news satisfy the condition.
OtherNodes::News await(NodeWatch& watch,
                       const std::function<bool(const OtherNodes::News&)>& are_so) {
  for (;;) {
    OtherNodes::News news = watch.news();
    if (are_so(news)) return news;
    pollfd entry{watch.fd(), POLLIN, 0};
    expect(::poll(&entry, 1, 10000) == 1, "news come");
  }
}

bool is_bad(const OtherNodes::News& news) { return news.is_bad(); }
bool is_open(const OtherNodes::News& news) { return news.is_open; }
bool have_all_ended(const OtherNodes::News& news) { return news.have_all_ended; }

}  // namespace

TEST_CASE("all nodes report the first failure of all", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(3, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 3, server), 1));
    for (int generation = 0; generation < 2; ++generation) {
      watch.begin(generation);
      if (rank == 0) watch.open();
      (void)await(watch, is_open);
      if (rank == 1) watch.claim_failure();
      const OtherNodes::News news = await(watch, is_bad);
      expect(news.failed_node == 1 && news.lost.empty(), "node 1 was first");
      if (rank == 2) watch.claim_failure();  // a consequence
      const std::string own = "failure of node " + std::to_string(rank);
      expect(watch.agree_on_failure(own) == "failure of node 1", "and tells of it");
      watch.end_generation();
      expect(watch.wait_for_all(), "all of them end");
    }
    watch.leave();
  });
}

TEST_CASE("a signal to one node stops all nodes, until all workers have ended", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1));
    if (rank == 1) watch.claim_stop(SIGTERM);
    const OtherNodes::News news = await(watch, is_bad);
    expect(news.failed_node == 1 && news.stop_signal == SIGTERM, "who was sent what");
    expect(!news.is_over(), "the workers are still to end");
    watch.end_generation();
    expect(await(watch, have_all_ended).is_over(), "and have ended");
    expect(watch.agree_on_failure("stop") == "stop", "node 1 tells it");
    watch.leave();
  });
}

TEST_CASE("a launcher that has to give up tells the others why", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1));
    if (rank == 1) return watch.give_up("no room for logs");
    (void)await(watch, is_bad);
    expect(watch.agree_on_failure("") == "no room for logs", "what it said");
    watch.leave();
  });
}

TEST_CASE("a job has succeeded when it has on all nodes", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1));
    watch.begin(0);
    watch.end_generation();
    expect(!await(watch, have_all_ended).is_bad(), "no node failed");
    watch.leave();
  });
}

TEST_CASE("all nodes know that the job's end was asked for at a worker of one", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1));
    watch.begin(0);
    if (rank == 1) watch.tell_stop_of_worker();
    watch.end_generation();
    const OtherNodes::News news = await(watch, have_all_ended);
    expect(news.is_stop(), "the job ends because of it");
    expect(!news.stop_requested && !news.is_bad(), "its workers are not signalled");
    watch.begin(1);
    expect(watch.news().is_stop(), "there is no other attempt");
    watch.leave();
  });
}

TEST_CASE("a node that fails and ends between two looks has not succeeded", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  ddp::TcpStore other(server.endpoint(), 5s);
  const auto fail_and_end = [&other] {
    other.set("ddp-launch/gen/0/claim", "1");
    other.set("ddp-launch/gen/0/ended/1", "1");
    (void)other.has("ddp-launch/gen/0/claim");  // the reply shows that the server has both
  };
  for (const char* last_key : {"gen/0/claim", "gen/0/ended/0"}) {
    Meeting meeting = meet(plan_of(0, 1, server), 1);
    meeting.nodes.push_back({.host = "host1", .launcher = 1, .workers = 1});
    meeting.store =
        std::make_shared<ObservedStore>(meeting.store, [&, last_key](const std::string& key) {
          if (key == last_key) fail_and_end();
        });
    NodeWatch watch(std::move(meeting));
    watch.end_generation();
    CHECK(await(watch, have_all_ended).failed_node == 1);
    for (const char* left : {"claim", "ended/0", "ended/1"}) {
      other.delete_key(std::string("ddp-launch/gen/0/") + left);
    }
    other.delete_key("ddp-launch/node/0");
  }
}

// Anybody who can reach the store can write there.
TEST_CASE("a claim of a node or by a signal that does not exist gives way to a real one",
          "[nodes]") {
  const std::string claim = GENERATE("99", "2", "-1", "1 0", "1 99999", "x");
  CAPTURE(claim);
  const TcpServer server({"127.0.0.1", 0});
  ddp::TcpStore other(server.endpoint(), 5s);
  other.set("ddp-launch/gen/0/claim", claim);
  other.set("ddp-launch/hurry", "99");
  Gate have_seen_none;
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1));
    if (rank == 0) watch.request_stop();
    // It is read after the claim.
    OtherNodes::News news =
        await(watch, [](const OtherNodes::News& now) { return now.stop_requested; });
    expect(!news.is_bad() && !news.hurried_by, "no node has failed or hurries");
    have_seen_none.raise();
    expect(have_seen_none.wait_for(2), "both nodes see that");
    if (rank == 1) watch.claim_failure();
    news = await(watch, is_bad);
    expect(news.failed_node == 1 && !news.stop_signal, "node 1 was first");
    if (rank == 0) watch.hurry();
    news = await(watch, [](const OtherNodes::News& now) { return now.hurried_by.has_value(); });
    expect(news.hurried_by == 0, "node 0 hurries");
    watch.end_generation();
    expect(watch.agree_on_failure("failure") == "failure", "node 1 tells it");
    watch.leave();
  });
}

TEST_CASE("a loss that anybody has written is reported as one short line", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  NodeWatch watch(meet(plan_of(0, 1, server), 1));
  ddp::TcpStore(server.endpoint(), 5s)
      .set("ddp-launch/lost", "a\x1b[2J\n" + std::string(5000, 'x'));
  const std::string lost = await(watch, is_bad).lost;
  CHECK_THAT(lost, Catch::Matchers::StartsWith("a [2J xxx") && Catch::Matchers::EndsWith("x..."));
  CHECK(lost.size() < 1100);
}

TEST_CASE("all nodes report the same about a node that vanishes", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(3, [&](int rank) {
    const SignsOfLife signs{.period = 50ms, .vanished = 5s};
    NodeWatch watch(meet(plan_of(rank, 3, server), 1), signs);
    if (rank == 2) return;
    const std::string lost = await(watch, is_bad).lost;
    expect(lost == "node 2 (host2) has vanished: no sign of life for 5 s", lost);
    expect(!watch.wait_for_all(), "its workers are not waited for");
  });
}

TEST_CASE("a node whose store ends with node 0 has learnt before which node is lost", "[nodes]") {
  auto server = std::make_unique<TcpServer>(Endpoint{"127.0.0.1", 0});
  run_ranks(3, [&](int rank) {
    // Node 0 is the first to know.
    const SignsOfLife signs{.period = rank == 0 ? 50ms : 900ms, .vanished = 6s};
    NodeWatch watch(meet(plan_of(rank, 3, *server), 1), signs);
    if (rank == 2) return;
    const std::string lost = await(watch, is_bad).lost;
    expect(lost == "node 2 (host2) has vanished: no sign of life for 6 s", lost);
    watch.leave();
    if (rank == 0) server.reset();
  });
}

TEST_CASE("node 0 waits no longer for others if several nodes have vanished", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(4, [&](int rank) {
    const SignsOfLife signs{.period = 50ms, .vanished = 5s};
    NodeWatch watch(meet(plan_of(rank, 4, server), 1), signs);
    if (rank > 1) return;
    (void)await(watch, is_bad);
    const auto begin = ddp::Clock::now();
    watch.leave();
    expect(ddp::Clock::now() - begin < 4s, "without the timeout of the store");
  });
}

TEST_CASE("a failed node that vanishes before it has told its failure is reported as lost",
          "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    const SignsOfLife signs{.period = 50ms, .vanished = 5s};
    NodeWatch watch(meet(plan_of(rank, 2, server), 1), signs);
    if (rank == 1) watch.claim_failure();
    (void)await(watch, is_bad);
    if (rank == 1) return;
    expect(!watch.agree_on_failure("own"), "node 1 does not tell its failure");
    const std::string lost = watch.news().lost;
    expect(lost == "node 1 (host1) has vanished: no sign of life for 5 s", lost);
  });
}

namespace {

// A store whose server ends when somebody waits for a key.
class EndingStore : public ddp::test::ForwardingStore {
 public:
  EndingStore(std::shared_ptr<ddp::Store> store, std::unique_ptr<TcpServer>& server)
      : ForwardingStore(std::move(store)), server_(server) {}

  void wait(std::span<const std::string> keys, Timeout timeout) override {
    server_.reset();
    ForwardingStore::wait(keys, timeout);
  }
  std::shared_ptr<ddp::Store> clone(Timeout timeout) const override {
    return std::make_shared<EndingStore>(store()->clone(timeout), server_);
  }

 private:
  std::unique_ptr<TcpServer>& server_;
};

}  // namespace

TEST_CASE("a failed node 0 whose store ends before it has told its failure is reported as lost",
          "[nodes]") {
  auto server = std::make_unique<TcpServer>(Endpoint{"127.0.0.1", 0});
  ddp::TcpStore(server->endpoint(), 5s).set("ddp-launch/gen/0/claim", "0");
  const auto store = std::make_shared<ddp::PrefixStore>(
      kLauncherPrefix, std::make_shared<ddp::TcpStore>(server->endpoint(), 5s));
  NodeWatch watch({.store = std::make_shared<EndingStore>(store, server),
                   .self = 1,
                   .nodes = {{.host = "host0"}, {.host = "host1"}}});
  (void)await(watch, is_bad);
  CHECK_FALSE(watch.agree_on_failure("own"));
  CHECK_THAT(watch.news().lost, Contains("node 0 (host0) cannot be reached any more"));
}

TEST_CASE("an interrupted launcher waits no longer than a second for nodes that do not answer",
          "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    std::atomic<bool> is_interrupted = false;
    NodeWatch watch(meet(plan_of(rank, 2, server), 1), {}, [&] { return is_interrupted.load(); });
    if (rank == 1) watch.claim_failure();
    (void)await(watch, is_bad);
    if (rank == 1) return;  // it does not say which failure
    is_interrupted = true;
    const auto begin = ddp::Clock::now();
    expect(!watch.agree_on_failure("own"), "node 1 does not tell its failure");
    expect(!watch.wait_for_all(), "nor that its workers have ended");
    watch.begin(1);
    expect(watch.agree_on_failure("own") == "own", "in the next attempt no node fails");
    watch.leave();
    expect(ddp::Clock::now() - begin < 15s, "no wait for a node that has vanished");
  });
}

TEST_CASE("a launcher that is interrupted while it waits tells the others to hurry", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1), {}, [rank] { return rank == 0; });
    if (rank == 0) {
      expect(!watch.wait_for_all(), "node 1 does not end");
    } else {
      const OtherNodes::News news =
          await(watch, [](const OtherNodes::News& now) { return now.hurried_by.has_value(); });
      expect(news.hurried_by == 0, "node 0 is interrupted");
    }
    watch.leave();
  });
}

TEST_CASE("what a launcher says just before it leaves reaches the others", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  ddp::TcpStore other(server.endpoint(), 5s);
  Gate looks, has_said;
  {
    Meeting meeting = meet(plan_of(0, 1, server), 1);
    meeting.nodes.push_back({.host = "host1", .launcher = 1, .workers = 1});
    meeting.self = 1;
    meeting.store = std::make_shared<ObservedStore>(meeting.store, [&](const std::string& key) {
      if (key != "hurry") return;  // the last one in which it looks for news
      looks.raise();
      (void)has_said.wait_for(1);
      std::this_thread::sleep_for(50ms);  // a store that is far away
    });
    NodeWatch watch(std::move(meeting));
    CHECK(looks.wait_for(1));
    watch.hurry();
    has_said.raise();
    watch.leave();
  }
  CHECK(other.find("ddp-launch/hurry") == "1");
}

TEST_CASE("a node's load on the store does not grow with the number of nodes", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  std::mutex mutex;
  std::set<std::string> keys;
  const auto note = [&](const std::string& key) {
    const std::lock_guard lock(mutex);
    keys.insert(key);
  };
  const auto store = std::make_shared<ddp::TcpStore>(server.endpoint(), 5s);
  NodeWatch watch({.store = std::make_shared<ObservedStore>(store, note),
                   .self = 1,
                   .nodes = std::vector<Node>(8, Node{.host = "host"})});
  watch.claim_failure();
  (void)await(watch, is_bad);  // the watch has looked at all nodes
  store->set("stop", "1");
  (void)await(watch, [](const OtherNodes::News& news) { return news.stop_requested; });
  const std::lock_guard lock(mutex);
  CHECK(keys.contains("alive/0"));
  CHECK(keys.contains("alive/1"));
  CHECK_FALSE(keys.contains("alive/2"));
  CHECK_FALSE(keys.contains("gen/0/ended/0"));
}

// As by a firewall that forgets idle connections, or is set up anew.
TEST_CASE("a node whose connections are reset is not lost, and tells its failure", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  Relay relay(server.endpoint());
  run_ranks(2, [&](int rank) {
    NodePlan plan = plan_of(rank, 2, server);
    if (rank == 1) plan.store = relay.endpoint();
    NodeWatch watch(meet(plan, 1));
    if (rank == 1) {
      relay.break_now();
      watch.claim_failure();
    }
    const OtherNodes::News news = await(watch, is_bad);
    expect(news.failed_node == 1 && news.lost.empty(), news.lost);
    if (rank == 1) relay.break_at_next_byte();
    const std::string own = "failure of node " + std::to_string(rank);
    expect(watch.agree_on_failure(own) == "failure of node 1", "node 1 tells of it");
    watch.end_generation();
    expect(watch.wait_for_all(), "both end");
    watch.leave();
  });
}

TEST_CASE("a node that loses the store reports this", "[nodes]") {
  auto server = std::make_unique<TcpServer>(Endpoint{"127.0.0.1", 0});
  NodeWatch watch(meet(plan_of(0, 1, *server), 1));
  watch.begin(0);
  server.reset();
  const OtherNodes::News news = await(watch, is_bad);
  CHECK_THAT(news.lost, Contains("node 0 (host0)") && Contains("cannot be reached any more"));
  CHECK_FALSE(watch.wait_for_all());
}
