// SPDX-License-Identifier: MIT
//
// How a launcher finds node 0: names that appear late, slow name servers, slow networks.
#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/job_site.h"
#include "launcher/nodes/reachability.h"
#include "support/meet_nodes.h"
#include "support/routable_address.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

using Catch::Matchers::Contains;
using ddp::Deadline;
using ddp::Endpoint;
using ddp::Socket;
using ddp::TcpServer;
using ddp::Timeout;
using ddp::test::error_at_once;
using ddp::test::error_of;
using ddp::test::meet;
using ddp::test::plan_of;
using ddp::test::Waiting;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr Timeout kNoPatience{0};
const std::vector<Endpoint> kFound = {{"10.1.2.3", 29500}};

std::atomic<int> look_ups_in_vain{0};
std::atomic<bool> lacks_ports{false};
std::string own_address;

// A relay to a server that passes on what it reads `delay` later.
class SlowLink {
 public:
  SlowLink(Endpoint server, Timeout delay)
      : server_(std::move(server)), delay_(delay), accepts_([this] { accept_all(); }) {}
  ~SlowLink() {
    is_over_ = true;
    accepts_.join();
    for (std::thread& each : passes_) each.join();
  }

  [[nodiscard]] Endpoint endpoint() const { return listener_.local_endpoint(); }

 private:
  using Ends = std::array<Socket, 2>;

  void accept_all() {
    while (!is_over_) {
      if (!listener_.wait_readable(Deadline::after(kLook))) continue;
      auto client = listener_.accept();
      if (!client) continue;
      const auto ends = std::make_shared<Ends>(
          Ends{std::move(*client), Socket::connect(server_, Deadline::after(5s))});
      for (const std::size_t from : {0U, 1U}) {
        passes_.emplace_back([this, ends, from] { pass((*ends)[from], (*ends)[1 - from]); });
      }
    }
  }

  void pass(Socket& from, Socket& to) {
    std::array<std::byte, 4096> bytes;
    try {
      while (!is_over_) {
        const auto size = from.receive_until(bytes, Deadline::after(kLook));
        if (!size) continue;
        std::this_thread::sleep_for(delay_);
        to.send_all(std::span(bytes).first(*size), Deadline::after(5s));
      }
    } catch (const ddp::NetworkError&) {
      to.shut_down();
    }
  }

  static constexpr Timeout kLook{20};

  Endpoint server_;
  Timeout delay_;
  Socket listener_ = Socket::listen({"127.0.0.1", 0});
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> passes_;
  std::thread accepts_;
};

}  // namespace

// Replaces the C library's function: while `lacks_ports`, all ephemeral ports are in use.
extern "C" int connect(int fd, const sockaddr* address, socklen_t size) {
  if (lacks_ports) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_connect, fd, address, size));
}

TEST_CASE("a host without a free port does not blame node 0", "[nodes]") {
  const NodePlan plan{.rank = 1, .count = 2, .store = {"127.0.0.1", 1}};
  lacks_ports = true;
  const std::string error = error_of([&] { meet(plan, 1, kNoPatience); });
  lacks_ports = false;
  CHECK_THAT(error, Contains("this host has no free port") && !Contains("does not answer"));
}

TEST_CASE("several nodes cannot meet on a loopback address, or where a host only listens",
          "[nodes]") {
  Waiting waiting(kNoPatience);
  const auto check = [&](const char* host) {
    (void)find_node0({host, 29500}, 2, waiting.patience);
  };
  for (const char* host : {"localhost", "::ffff:127.0.0.1"}) {
    CHECK_THAT(error_of([&] { check(host); }),
               Contains("loopback") && Contains("on one machine") && Contains("hostname -I"));
  }
  for (const char* host : {"0.0.0.0", "::"}) {
    CHECK_THAT(error_of([&] { check(host); }), Contains("listens at all its addresses"));
  }
  CHECK_NOTHROW(check("10.1.2.3"));
}

// Replaces the C library's function: "late.test" is a host whose name can be resolved only later,
// of "slow.test" the first name server is silent, "debian.test" has a loopback address, too, and
// "moved.test" is this host, but for a while leads to another one.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  if (!name.ends_with(".test")) return real(host, service, hints, found);
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (name == "moved.test") {
    const char* place = look_ups_in_vain-- > 0 ? "192.0.2.77" : own_address.c_str();
    return real(place, service, hints, found);
  }
  if (name == "debian.test") {
    if (const int status = real("127.0.1.1", service, hints, found); status != 0) return status;
    return real("10.1.2.3", service, hints, &(*found)->ai_next);
  }
  const char* address = name == "local.test" ? "127.0.0.1" : "10.1.2.3";
  if (name == "slow.test") std::this_thread::sleep_for(1500ms);
  return look_ups_in_vain-- > 0 ? EAI_NONAME : real(address, service, hints, found);
}

TEST_CASE("nodes wait for a host name of node 0 that appears late", "[nodes]") {
  look_ups_in_vain = 8;
  Waiting patient(20s);
  CHECK(find_node0({"late.test", 29500}, 2, patient.patience) == kFound);
  look_ups_in_vain = 8;
  Waiting impatient(kNoPatience);
  CHECK_THAT(error_of([&] {
               (void)find_node0({"late.test", 29500}, 2, impatient.patience);
             }),
             Contains("cannot resolve host 'late.test'"));
}

// A launcher tries again every second.
TEST_CASE("with a short timeout, no warning says that the host name is looked up again",
          "[nodes]") {
  look_ups_in_vain = 1000;
  const ddp::test::StderrCapture log;
  const NodePlan plan{.rank = 1, .count = 2, .store = {"late.test", 1}};
  CHECK_THAT(error_of([&] { meet(plan, 1, kNoPatience); }), Contains("cannot resolve"));
  CHECK(log.text() == "");
}

TEST_CASE("a name server may take its time", "[nodes]") {
  look_ups_in_vain = 0;
  Waiting patient(20s);
  CHECK(find_node0({"slow.test", 29500}, 2, patient.patience) == kFound);
  Waiting impatient(kNoPatience);
  CHECK_THAT(error_of([&] {
               (void)find_node0({"slow.test", 29500}, 2, impatient.patience);
             }),
             Contains("cannot resolve host 'slow.test': no answer from the name server"));
}

TEST_CASE("a name is asked for again while nobody answers, without a wait", "[nodes]") {
  const std::vector<Endpoint> old = {{"10.1.2.4", 29500}};
  std::vector<Endpoint> addresses = old;
  NameWatch watch({"late.test", 29500}, Timeout(0));
  look_ups_in_vain = 1;
  const Deadline end = Deadline::after(20s);
  while (addresses == old && !end.passed()) watch.refresh(addresses);
  CHECK(addresses == kFound);
}

TEST_CASE("node 0 waits for its name to lead to it", "[nodes]") {
  own_address = ddp::test::routable_address();
  if (own_address.empty()) {
    WARN("SKIPPED: no address but loopback");
    return;
  }
  const std::uint16_t port = Socket::listen({own_address, 0}).local_endpoint().port;
  const std::string here = ":" + std::to_string(port);
  look_ups_in_vain = 1;
  Waiting waiting(kNoPatience);
  NodeOptions options;
  options.count = 2;
  options.rank = 0;
  options.endpoint = {"moved.test", port};
  options.start_timeout = 4s;
  CHECK_THAT(
      error_of([&] {
        (void)open_site(options, {}, {.local_world_size = 1}, waiting.signals, waiting.console);
      }),
      Contains("missing node 1; listening on moved.test" + here + " (" + own_address + here));
}

TEST_CASE("a clone of a store asks no name server", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  const ddp::TcpStore store({"local.test", server.endpoint().port}, 5s);
  look_ups_in_vain = 1000;
  CHECK_NOTHROW(store.clone(1s)->set("key", "value"));
}

TEST_CASE("launchers meet over a network whose answers take more than a second", "[nodes]") {
  const TcpServer server({"127.0.0.1", 0});
  NodePlan first = plan_of(0, 2, server);
  first.terms = "--max_restarts 0";
  CHECK_THAT(error_at_once(first, "nodes here"), Contains("missing node 1"));
  const SlowLink link(server.endpoint(), 550ms);
  NodePlan second = plan_of(1, 2, server);
  second.store = link.endpoint();
  second.terms = "--max_restarts 2";
  CHECK_THAT(error_of([&] { meet(second, 1); }), Contains("node 0 has --max_restarts 0"));
}

TEST_CASE("nodes meet at those addresses of a name that others can reach", "[nodes]") {
  Waiting waiting(20s);
  CHECK(find_node0({"debian.test", 29500}, 2, waiting.patience) == kFound);
}

TEST_CASE("without ranks, node 0 is the host that has all addresses of the name", "[nodes]") {
  const Endpoint one{"127.0.0.1", 1}, two{"127.0.0.2", 1}, anothers{"192.0.2.77", 1};
  CHECK(has_all(std::vector{one, two}));
  CHECK_FALSE(has_all(std::vector{one, anothers}));
  CHECK(has_all_that_live(std::vector{one, two}));
  CHECK_FALSE(has_all_that_live(std::vector{anothers}));
  CHECK_THAT(why_not_node0({"all.test", 1}, std::vector{one, anothers}),
             Contains("all.test also has 192.0.2.77: if this host is to be node 0"));
  CHECK(why_not_node0({"all.test", 1}, std::vector{one, two}).empty());
  CHECK(why_not_node0({"all.test", 1}, std::vector{anothers}).empty());
}
