// SPDX-License-Identifier: MIT
//
// The launchers of several nodes, run as threads with one store.
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/process_status.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/node_watch.h"
#include "launcher/nodes/nodes.h"
#include "launcher/nodes/patience.h"
#include "launcher/nodes/worker_keys.h"
#include "launcher/run/restart_policy.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

using Catch::Matchers::Contains;
using ddp::Deadline;
using ddp::Endpoint;
using ddp::TcpServer;
using ddp::Timeout;
using ddp::test::error_of;
using ddp::test::expect;
using ddp::test::run_ranks;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

NodePlan plan_of(int rank, int count, const TcpServer& server) {
  return {
      .rank = rank, .count = count, .store = server.endpoint(), .run_id = rank == 0 ? "job" : ""};
}

// The patience of a launcher whose console goes nowhere.
struct Waiting {
  explicit Waiting(Timeout timeout) : patience(timeout, signals, console) {}

  SignalReader signals;
  Console console{-1, -1};
  Patience patience;
};

Meeting meet(const NodePlan& plan, int workers, Timeout timeout = 20s) {
  Waiting waiting(timeout);
  const Node self{
      .host = "host" + std::to_string(plan.rank.value_or(9)), .launcher = 100, .workers = workers};
  return meet_nodes(plan, self, waiting.patience);
}

constexpr Timeout kAtOnce{0};

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
  run_ranks(3, [&](int i) {
    NodePlan plan = plan_of(i, 3, server);
    if (i > 0) plan.rank.reset();
    ranks[static_cast<std::size_t>(i)] = meet(plan, 1).self;
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

namespace {

// A host that can be stopped for a while: a process that runs `body` and exits with its result.
// `body` may write to a pipe, which the test reads.
class StoppableProcess {
 public:
  explicit StoppableProcess(const std::function<int(int pipe)>& body) {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    pipe_ = ddp::FileDescriptor(fds[0]);
    const ddp::FileDescriptor write_end(fds[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body(write_end.get()));
  }
  StoppableProcess(const StoppableProcess&) = delete;
  StoppableProcess& operator=(const StoppableProcess&) = delete;
  ~StoppableProcess() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  // Reads a number that the process has written.
  [[nodiscard]] std::uint16_t read() const {
    std::uint16_t number = 0;
    expect(::read(pipe_.get(), &number, sizeof(number)) == sizeof(number), "the process writes");
    return number;
  }

  void stop_for(Timeout time) const {
    ::kill(pid_, SIGSTOP);
    std::this_thread::sleep_for(time);
    ::kill(pid_, SIGCONT);
  }

  // Its exit code.
  [[nodiscard]] int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return ddp::exit_code_of(status);
  }

 private:
  ddp::FileDescriptor pipe_;
  pid_t pid_ = 0;
};

void write_number(int pipe, std::uint16_t number) {
  expect(::write(pipe, &number, sizeof(number)) == sizeof(number), "somebody reads");
}

int serve(int pipe) {
  const TcpServer server({"127.0.0.1", 0});
  write_number(pipe, server.endpoint().port);
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("the other nodes wait for a node 0 that is stopped for a while", "[nodes]") {
  const StoppableProcess host(serve);
  const Endpoint endpoint{"127.0.0.1", host.read()};
  run_ranks(2, [&](int i) {
    NodePlan plan{.rank = 1, .count = 2, .store = endpoint};
    if (i == 1) {
      expect(meet(plan, 1).self == 1, "node 1 has met node 0");
      return;
    }
    ddp::TcpStore store(endpoint, 10s);
    store.set("ddp-launch/terms", "");
    store.set("ddp-launch/run_id", "job");
    (void)store.get("ddp-launch/node/1");
    host.stop_for(2500ms);
    plan.rank = 0;
    plan.run_id = "job";
    expect(meet(plan, 1).nodes.size() == 2, "both are there");
  });
}

TEST_CASE("a missing node is named", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  CHECK_THAT(error_of([&] { meet(plan_of(0, 3, server), 1, kAtOnce); }),
             Contains("gave up after 0 s (--timeout-start): 1/3 nodes here; missing node 1, 2; "
                      "listening on 127.0.0.1:"));
}

TEST_CASE("a node rank that is taken and another job's store are refused", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  meet(plan_of(0, 1, server), 1);
  Waiting waiting(kAtOnce);
  const Node other{.host = "b", .launcher = 7, .workers = 1};
  CHECK_THAT(error_of([&] { (void)meet_nodes(plan_of(0, 1, server), other, waiting.patience); }),
             Contains("node rank 0 is taken by host0 (launcher pid 100)"));
  NodePlan stranger = plan_of(1, 2, server);
  stranger.run_id = "another";
  CHECK_THAT(error_of([&] { meet(stranger, 1); }),
             Contains("serves job 'job', not 'another' (--rdzv_id)"));
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

TEST_CASE("several nodes cannot meet on a loopback address", "[nodes]") {
  Waiting waiting(kAtOnce);
  const auto check = [&](const char* host) { check_reachable({host, 29500}, 2, waiting.patience); };
  CHECK_THAT(error_of([&] { check("localhost"); }),
             Contains("loopback") && Contains("on one machine") && Contains("hostname -I"));
  CHECK_NOTHROW(check("10.1.2.3"));
}

namespace {

std::atomic<int> look_ups_in_vain{0};

}  // namespace

// Replaces the C library's function: "late.test" is a host whose name can be resolved only later.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::string_view(host) != "late.test") {
    return real(host, service, hints, found);
  }
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  return look_ups_in_vain-- > 0 ? EAI_NONAME : real("10.1.2.3", service, hints, found);
}

TEST_CASE("nodes wait for a host name of node 0 that appears late", "[nodes]") {
  look_ups_in_vain = 8;
  Waiting patient(20s);
  CHECK_NOTHROW(check_reachable({"late.test", 29500}, 2, patient.patience));
  look_ups_in_vain = 8;
  Waiting impatient(kAtOnce);
  CHECK_THAT(error_of([&] {
               check_reachable({"late.test", 29500}, 2, impatient.patience);
             }),
             Contains("cannot resolve host 'late.test'"));
}

// A launcher tries again every second.
TEST_CASE("with a short timeout, no warning says that the host name is looked up again",
          "[nodes]") {
  look_ups_in_vain = 1000;
  const ddp::test::StderrCapture log;
  const NodePlan plan{.rank = 1, .count = 2, .store = {"late.test", 1}};
  CHECK_THAT(error_of([&] { meet(plan, 1, kAtOnce); }), Contains("cannot resolve"));
  CHECK(log.text() == "");
}

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

TEST_CASE("launchers with different flags do not start a job", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  NodePlan first = plan_of(0, 2, server);
  first.terms = "--max_restarts 0";
  CHECK_THROWS(meet(first, 1, kAtOnce));  // it waits for node 1
  NodePlan second = plan_of(1, 2, server);
  second.terms = "--max_restarts 2";
  CHECK_THAT(error_of([&] { meet(second, 1); }),
             Contains("node 0 has --max_restarts 0, this node has --max_restarts 2"));
}

TEST_CASE("a launcher that stops waiting may be started again", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const NodePlan plan = plan_of(0, 2, server);
  CHECK_THAT(error_of([&] { meet(plan, 1, kAtOnce); }), Contains("missing node 1"));
  Waiting waiting(20s);
  ::kill(::getpid(), SIGTERM);
  CHECK_THAT(error_of([&] { (void)meet_nodes(plan, {.host = "b"}, waiting.patience); }),
             Contains("SIGTERM while waiting"));
  CHECK_FALSE(ddp::TcpStore(server.endpoint(), 5s).has("ddp-launch/node/0"));
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

namespace {

// A store that reports the requested key: the first key of a check(), or that of an add() or a
// compare_set(), by which find() reads.
class ObservedStore : public ddp::Store {
 public:
  using Observer = std::function<void(const std::string& key)>;

  ObservedStore(std::shared_ptr<ddp::Store> store, Observer observer)
      : store_(std::move(store)), observer_(std::move(observer)) {}

  void set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::string get(std::string_view key, Timeout timeout) override {
    return store_->get(key, timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    const std::int64_t sum = store_->add(key, delta);
    observer_(std::string(key));
    return sum;
  }
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    std::string stored = store_->compare_set(key, expected, desired);
    observer_(std::string(key));
    return stored;
  }
  void wait(std::span<const std::string> keys, Timeout timeout) override {
    store_->wait(keys, timeout);
  }
  bool check(std::span<const std::string> keys) override {
    const bool exist = store_->check(keys);
    observer_(keys[0]);
    return exist;
  }
  bool delete_key(std::string_view key) override { return store_->delete_key(key); }
  std::shared_ptr<ddp::Store> clone(Timeout timeout) const override {
    return std::make_shared<ObservedStore>(store_->clone(timeout), observer_);
  }
  Timeout timeout() const override { return store_->timeout(); }

 private:
  std::shared_ptr<ddp::Store> store_;
  Observer observer_;
};

}  // namespace

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

namespace {

constexpr SignsOfLife kQuickSigns{.period = 50ms, .vanished = 2s};

// Runs two nodes for 5 s.
int run_for_a_while(int pipe) try {
  const Deadline end = Deadline::after(5s);
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(2, [&](int rank) {
    NodeWatch watch(meet(plan_of(rank, 2, server), 1), kQuickSigns);
    if (rank == 0) write_number(pipe, 1);
    while (!end.passed()) {
      expect(watch.news().lost.empty(), "nobody is lost");
      pollfd entry{watch.fd(), POLLIN, 0};
      ::poll(&entry, 1, static_cast<int>(end.remaining().count()));
    }
    watch.leave();
  });
  return 0;
} catch (const std::exception&) {
  return 1;
}

}  // namespace

TEST_CASE("a job that is suspended on all nodes loses no node", "[nodes]") {
  StoppableProcess job(run_for_a_while);
  (void)job.read();
  job.stop_for(3s);
  CHECK(job.wait() == 0);
}

TEST_CASE("all nodes report the same about a node that vanishes", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  run_ranks(3, [&](int rank) {
    const SignsOfLife signs{.period = 50ms, .vanished = 2s};
    NodeWatch watch(meet(plan_of(rank, 3, server), 1), signs);
    if (rank == 2) return;
    const std::string lost = await(watch, is_bad).lost;
    expect(lost == "node 2 (host2) has vanished: no sign of life for 2 s", lost);
    expect(!watch.wait_for_all(), "its workers are not waited for");
  });
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
    expect(watch.agree_on_failure("own").empty(), "node 1 does not tell its failure");
    expect(!watch.wait_for_all(), "nor that its workers have ended");
    watch.begin(1);
    expect(watch.agree_on_failure("own") == "own", "in the next attempt no node fails");
    watch.leave();
    expect(ddp::Clock::now() - begin < 15s, "no wait for a node that has vanished");
  });
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

TEST_CASE("a node that loses the store reports this", "[nodes]") {
  auto server = std::make_unique<TcpServer>(Endpoint{"127.0.0.1", 0});
  NodeWatch watch(meet(plan_of(0, 1, *server), 1));
  watch.begin(0);
  server.reset();
  const OtherNodes::News news = await(watch, is_bad);
  CHECK_THAT(news.lost, Contains("node 0 (host0)") && Contains("cannot be reached any more"));
  CHECK_FALSE(watch.wait_for_all());
}

TEST_CASE("the keys of one attempt's workers are gone in the next attempt", "[restarts]") {
  const TcpServer server({"127.0.0.1", 0});
  ddp::TcpStore store(server.endpoint(), 5s);
  store.set("rank0/address", "stale");
  store.set("ddp-launch/run_id", "job");
  begin_attempt(store, "job", 1);
  CHECK_FALSE(store.has("rank0/address"));
  CHECK(store.get("ddp-launch/run_id") == "job");
  CHECK(store.get("ddp/job/attempt") == "1");
}

TEST_CASE("a job is started again until its restarts are used up", "[restarts]") {
  CHECK_FALSE(RestartPolicy(0).after_failure(1, 5).delay);
  RestartPolicy policy(7);
  std::vector<Timeout> delays;
  for (int step = 0; step < 7; ++step)
    delays.push_back(policy.after_failure(1, step).delay.value());
  CHECK(delays == std::vector<Timeout>{1s, 2s, 4s, 8s, 16s, 30s, 30s});
  const RestartPolicy::Decision last = policy.after_failure(1, 7);
  CHECK_FALSE(last.delay);
  CHECK_THAT(last.reason, Contains("--max_restarts 7 is used up"));
}

TEST_CASE("a job whose rank fails three times at the same step is not started again",
          "[restarts]") {
  RestartPolicy policy(10);
  CHECK(policy.after_failure(1, 50).delay);
  CHECK(policy.after_failure(2, 50).delay);
  CHECK(policy.after_failure(1, 50).delay);
  CHECK(policy.after_failure(1, 50).delay);
  const RestartPolicy::Decision third = policy.after_failure(1, 50);
  CHECK_FALSE(third.delay);
  CHECK_THAT(third.reason, Contains("rank 1 failed at step 50 3 times in a row"));
  RestartPolicy unknown(10);
  for (int i = 0; i < 5; ++i) CHECK(unknown.after_failure(1, std::nullopt).delay);
}
