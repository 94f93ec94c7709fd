// SPDX-License-Identifier: MIT
//
// What all kinds of store do, and how the client of a server behaves, also with a bad server.
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/wire.h"
#include "support/hex.h"
#include "support/loopback.h"
#include "support/run_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::hex;
using test::kLoopback;
using test::run_ranks;

namespace {

constexpr std::size_t kServerIdRequest = 40;  // bytes of the COMPARE_SET of wire::kServerIdKey

void check_common_behaviour(Store& store) {
  store.set("k", "v");
  CHECK(store.get("k") == "v");
  CHECK(store.has("k"));
  CHECK_FALSE(store.has("missing"));
  CHECK(store.add("counter", 5) == 5);
  CHECK(store.add("counter", -7) == -2);
  CHECK(store.get("counter") == "-2");
  store.set("highest", "9223372036854775807");
  CHECK(store.add("highest", 1) == std::numeric_limits<std::int64_t>::min());  // it wraps around
  store.set("sloppy", " 12abc");
  CHECK(store.add("sloppy", 1) == 13);
  CHECK(store.compare_set("c", "x", "y") == "x");  // for a missing key, as PyTorch's server
  CHECK(store.compare_set("c", "", "y") == "y");
  CHECK(store.compare_set("c", "wrong", "z") == "y");
  CHECK(store.compare_set("c", "y", "z") == "z");
  CHECK(store.delete_key("c"));
  CHECK_FALSE(store.delete_key("c"));
  const std::string binary("\0\xff\n", 3);
  store.set("binary", binary);
  CHECK(store.get("binary") == binary);
  const std::string error = error_of([&] { (void)store.get("never", 20ms); });
  CHECK(error.find("never\"") != std::string::npos);
  CHECK(error.find("timed out after 20 ms") != std::string::npos);
  CHECK(store.get("k") == "v");  // the connection survives a timeout
  CHECK(store.get("k", Timeout(0)) == "v");
  CHECK(store.find("k") == "v");
  CHECK(store.find("binary") == binary);
  CHECK_FALSE(store.find("never").has_value());
  CHECK_FALSE(store.has("never"));
  CHECK(store.wait_for("k", 20ms));
  CHECK_FALSE(store.wait_for("never", 20ms));
  CHECK_FALSE(store.wait_for(std::vector<std::string>{"k", "never"}, 20ms));
  CHECK(store.wait_for(std::vector<std::string>{"k", "counter"}, Timeout(0)));
  store.set("text", "");
  CHECK(store.find("text") == "");
  CHECK_THROWS_AS(store.add("text", 1), NetworkError);
}

}  // namespace

TEST_CASE("all kinds of store behave alike", "[store]") {
  SECTION("HashStore") {
    HashStore store;
    check_common_behaviour(store);
  }
  SECTION("TcpStore") {
    TcpServer server(kLoopback);
    TcpStore store(server.endpoint());
    check_common_behaviour(store);
  }
  SECTION("PrefixStore") {
    PrefixStore store("job", std::make_shared<HashStore>());
    check_common_behaviour(store);
  }
}

TEST_CASE("a key of a HashStore that comes and goes is read while it is there", "[store]") {
  HashStore store;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done.load()) {
      store.set("k", "v");
      store.delete_key("k");
    }
  });
  std::string error;
  const Deadline deadline = Deadline::after(2s);
  while (error.empty() && !deadline.passed()) {
    error = error_of([&] { (void)store.get("k", 10s); });
  }
  done.store(true);
  other.join();
  CHECK(error.empty());
}

TEST_CASE("the keys of a prefix store begin with its prefix", "[store]") {
  auto plain = std::make_shared<HashStore>();
  PrefixStore inner("a", plain);
  inner.set("x", "1");
  CHECK(plain->get("a/x") == "1");
  CHECK(inner.clone()->get("x") == "1");
}

TEST_CASE("the protocol's other calls work", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  store.append("log", "ab");
  store.append("log", "cd");
  CHECK(store.get("log") == "abcd");
  const std::pair<std::string, std::string> entries[] = {{"x", "1"}, {"y", "22"}};
  store.multi_set(entries);
  const std::string keys[] = {"y", "x", "y"};
  CHECK(store.multi_get(keys, 1s) == std::vector<std::string>{"22", "1", "22"});
  CHECK(store.num_keys() == 3);
  CHECK(store.list_keys() == std::vector<std::string>{"log", "x", "y"});
  store.queue_push("q", "first");
  store.queue_push("q", "second");
  CHECK(store.queue_length("q") == 2);
  CHECK(store.queue_pop("q", 1s) == "first");
  CHECK(store.queue_pop("q", Timeout(0)) == "second");
  CHECK(store.queue_pop("q", Timeout(0)) == std::nullopt);
  CHECK(error_of([&] { (void)store.queue_pop("q", 20ms); }).find("timed out") != std::string::npos);
  store.barrier("alone", 1, 1s);
}

TEST_CASE("a client refuses values that a server would refuse", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  CHECK_THROWS_AS(store.set("huge", std::string(wire::kMaxValueBytes + 1, 'x')),
                  std::invalid_argument);
  const std::string largest(wire::kMaxValueBytes, 'x');
  CHECK_THROWS_AS(store.compare_set("huge", largest + 'x', ""), std::invalid_argument);
  CHECK_THROWS_AS(store.compare_set("huge", largest, largest), std::invalid_argument);
  store.set("k", "v");
  CHECK(store.get("k") == "v");  // the connection still works
}

TEST_CASE("a client refuses keys, numbers of keys and requests that a server would refuse",
          "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  const std::string longest(wire::kMaxKeyBytes - 1, 'k');  // a slash is put before it
  store.set(longest, "v");
  CHECK(store.get(longest) == "v");
  CHECK_THROWS_AS(store.set(longest + 'k', "v"), std::invalid_argument);
  CHECK_THROWS_AS(store.get(longest + 'k', 1s), std::invalid_argument);
  CHECK_THROWS_AS(
      store.multi_set(std::vector<std::pair<std::string, std::string>>{{longest + 'k', "v"}}),
      std::invalid_argument);
  const std::vector<std::string> many(wire::kMaxKeys + 1, "k");
  CHECK_THROWS_AS(store.wait(many, 1s), std::invalid_argument);
  CHECK_THROWS_AS(store.check(many), std::invalid_argument);
  const std::vector<std::string> heavy(wire::kMaxRequestBytes / wire::kMaxKeyBytes, longest);
  CHECK_THROWS_AS(store.wait(heavy, 1s), std::invalid_argument);
  CHECK_THROWS_AS(store.check(heavy), std::invalid_argument);
  CHECK_THROWS_AS(store.multi_get(heavy, 1s), std::invalid_argument);
  const std::vector<std::pair<std::string, std::string>> large(
      2, {"k", std::string(wire::kMaxValueBytes, 'x')});
  CHECK_THROWS_AS(store.multi_set(large), std::invalid_argument);
  store.set("k", "v");
  CHECK(store.get("k") == "v");  // the connection still works
}

TEST_CASE("a wait that ends while it is cancelled leaves the connection usable", "[store]") {
  Socket listener = Socket::listen(kLoopback);
  bool patient = false;
  std::thread server([&] {
    while (!listener.wait_readable(Deadline::after(5s))) continue;
    Socket client = std::move(*listener.accept());
    const auto take = [&](std::size_t count) {
      std::string bytes(count, '\0');
      client.receive_all(std::as_writable_bytes(std::span(bytes)), Deadline::after(5s));
      return bytes;
    };
    const auto send = [&](const std::string& bytes) {
      client.send_all(std::as_bytes(std::span(bytes)), Deadline::after(5s));
    };
    take(5);                  // VALIDATE
    send(take(5).substr(1));  // PING
    take(kServerIdRequest);
    send(hex("01000000000000003f"));
    take(1 + 8 + 8 + 2);  // WAIT for "/k"
    take(1);              // CANCEL_WAIT, since we did not answer in time …
    send(hex("0001"));    // … but only now: STOP_WAITING, then WAIT_CANCELED
    take(1 + 8 + 2);      // GET "/k"
    patient = !client.wait_readable(Deadline::after(50ms));  // although its timeout is 20 ms
    if (!patient) return;
    send(hex("010000000000000076"));
    take(1);  // GETNUMKEYS
    send(hex("0700000000000000"));
  });
  TcpStore store(listener.local_endpoint(), 5s);
  std::string value;
  const std::string error = error_of([&] { value = store.get("k", 20ms); });
  const std::string later_error = error_of([&] { CHECK(store.num_keys() == 7); });
  server.join();
  CHECK(patient);
  CHECK(error.empty());
  CHECK(value == "v");
  CHECK(later_error.empty());
}

// The server is like a launcher that is stopped by Ctrl-Z and continued. While it is stopped,
// clients that come back fill its backlog, so that the kernel answers nobody any more.
TEST_CASE("a server that answers too late is asked again over a new connection", "[store]") {
  const bool is_late_twice = GENERATE(false, true);
  Socket listener = Socket::listen(kLoopback);
  REQUIRE(::listen(listener.fd(), 0) == 0);  // a backlog of one
  std::optional<Socket> other_client;
  std::promise<void> continued;
  std::thread server([&] {
    const auto accept = [&] {
      while (!listener.wait_readable(Deadline::after(5s))) continue;
      return std::move(*listener.accept());
    };
    const auto greet = [](Socket client) {
      std::array<std::byte, 10> greeting;  // VALIDATE, PING
      client.receive_all(greeting, Deadline::after(5s));
      client.send_all(std::span(greeting).subspan(6), Deadline::after(5s));
      std::array<std::byte, kServerIdRequest> request;
      client.receive_all(request, Deadline::after(5s));
      const std::string no_id = hex("01000000000000003f");
      client.send_all(std::as_bytes(std::span(no_id)), Deadline::after(5s));
      return client;
    };
    const Socket silent = greet(accept());
    if (is_late_twice) {
      continued.get_future().wait();
      (void)accept();
    }
    Socket client = greet(accept());
    std::array<std::byte, 1> request;  // GETNUMKEYS
    client.receive_all(request, Deadline::after(5s));
    const std::string seven = hex("0700000000000000");
    client.send_all(std::as_bytes(std::span(seven)), Deadline::after(5s));
  });
  TcpStore store(listener.local_endpoint(), 2s);
  const auto error_of_call = [&] { return error_of([&] { (void)store.num_keys(); }); };
  if (is_late_twice) {
    other_client = Socket::connect(listener.local_endpoint(), Deadline::after(5s));
    CHECK_THAT(error_of_call(), Catch::Contains("timed out after 2000 ms"));
  }
  const std::string error = error_of_call();
  continued.set_value();
  const std::string later_error = error_of([&] { CHECK(store.num_keys() == 7); });
  server.join();
  CHECK_THAT(error, Catch::Contains("timed out after 2000 ms"));
  CHECK(later_error.empty());
}

TEST_CASE("an endpoint behind which another program listens is recognised", "[store]") {
  Socket listener = Socket::listen(kLoopback);
  std::thread server([&] {
    while (!listener.wait_readable(Deadline::after(5s))) continue;
    Socket client = std::move(*listener.accept());
    const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    client.send_all(std::as_bytes(std::span(answer)), Deadline::after(5s));
    // Until the other end closes: the answer would be lost if there were something unread here.
    (void)error_of([&] {
      for (std::array<std::byte, 1> byte;;) client.receive_all(byte, Deadline::after(5s));
    });
  });
  const std::string error = error_of([&] { const TcpStore store(listener.local_endpoint(), 5s); });
  server.join();
  CHECK_THAT(error, Catch::Contains("answered PING wrongly right after connecting: another program "
                                    "may listen there, or a store that is ending, or the store of "
                                    "another user of this host, or a store of PyTorch 1.x"));
}

TEST_CASE("an endpoint that takes a connection and says nothing is told from one that is not there",
          "[store]") {
  const Socket listener = Socket::listen(kLoopback);
  const std::string error =
      error_of([&] { const TcpStore store(listener.local_endpoint(), 100ms); });
  CHECK_THAT(error, Catch::Contains("timed out after 100 ms") &&
                        Catch::Contains("the store's process may be stopped, or another program "
                                        "listens there"));
}

TEST_CASE("64 clients mixing all operations agree in the end", "[store]") {
  TcpServer server(kLoopback);
  constexpr int kClients = 64;
  constexpr int kRounds = 30;
  run_ranks(kClients, [&](int rank) {
    TcpStore store(server.endpoint(), 60s, rank);
    std::mt19937 random(static_cast<std::uint32_t>(rank));
    const std::string own = "own/" + std::to_string(rank);
    for (int round = 0; round < kRounds; ++round) {
      store.set(own, std::to_string(round));
      store.add("total", 1);
      store.append("appended", "x");
      store.queue_push("queue", std::to_string(rank));
      expect(store.queue_pop("queue", 60s).has_value(), "an element for everyone");
      expect(store.get(own) == std::to_string(round), "its own value");
      const std::string peer = "own/" + std::to_string(random() % kClients);
      (void)store.get(peer);
      const std::string keys[] = {own, "total"};
      expect(store.check(keys), "both keys");
      store.barrier("round/" + std::to_string(round), kClients, 60s);
    }
  });
  TcpStore store(server.endpoint());
  CHECK(store.add("total", 0) == kClients * kRounds);
  CHECK(store.get("appended").size() == kClients * kRounds);
  CHECK(store.queue_length("queue") == 0);
}

TEST_CASE("a clone waits while the original works", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint());
  const auto clone = store.clone();
  std::string seen;
  std::thread waiter([&] { seen = clone->get("late", 10s); });
  store.set("early", "1");
  store.set("late", "2");
  waiter.join();
  CHECK(seen == "2");
}

TEST_CASE("an operation that queues behind another thread's wait has a deadline", "[store]") {
  const TcpServer server({"127.0.0.1", 0});
  TcpStore store(server.endpoint(), 1s);
  const std::vector<std::string> keys{"late"};
  std::thread waiter([&] { store.wait(keys, 20s); });
  std::string error;
  for (const Deadline deadline = Deadline::after(10s); error.empty() && !deadline.passed();) {
    error = error_of([&] { store.add("counter", 1); });  // succeeds until the waiter has arrived
  }
  store.clone(5s)->set("late", "");
  waiter.join();
  CHECK_THAT(error, Catch::StartsWith("[tcp_store] add(\"counter\"): timed out after 1000 ms while "
                                      "another operation held the connection"));
  CHECK(store.add("counter", 1) >= 1);
}

TEST_CASE("an error names key, rank, endpoint and milliseconds", "[store]") {
  TcpServer server(kLoopback);
  TcpStore store(server.endpoint(), 5s, 2);
  CHECK(error_of([&] { (void)store.get("nccl_id", 30ms); }) ==
        "[tcp_store] get(\"nccl_id\") on rank 2: timed out after 30 ms (" +
            to_string(server.endpoint()) + ")");
}

TEST_CASE("without a server, the error comes in time and lists the addresses tried", "[store]") {
  Endpoint free_endpoint;
  {
    TcpServer server(kLoopback);
    free_endpoint = server.endpoint();
  }
  const std::string error = error_of([&] { TcpStore store(free_endpoint, 100ms); });
  const std::string address = to_string(free_endpoint);
  CHECK_THAT(error, Catch::EndsWith("cannot connect to " + address + " (" + address +
                                    ": Connection refused)"));
}

TEST_CASE("clients of a server that goes away get an error, not a hang", "[store]") {
  auto server = std::make_unique<TcpServer>(kLoopback);
  TcpStore store(server->endpoint());
  store.set("k", "v");
  CHECK(store.has("k"));  // nothing is in transit: the server closes, it does not reset
  server.reset();
  CHECK(error_of([&] { (void)store.get("k"); }).find("the peer closed") != std::string::npos);
}

TEST_CASE("a client's own address is known while it waits, and when the connection is lost",
          "[store]") {
  auto server = std::make_unique<TcpServer>(kLoopback);
  TcpStore store(server->endpoint());
  std::thread waiter([&] { (void)error_of([&] { (void)store.get("never", 10s); }); });
  for (int i = 0; i < 1000; ++i) {
    if (i == 500) server.reset();
    if (store.local_address() != "127.0.0.1") break;
  }
  waiter.join();
  CHECK(store.local_address() == "127.0.0.1");
}
