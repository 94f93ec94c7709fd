// SPDX-License-Identifier: MIT
//
// What a client does when its connection breaks and its server lives.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/becomes_true.h"
#include "support/loopback.h"
#include "support/relay.h"
#include "support/run_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::kLoopback;
using test::Relay;

namespace {

// A client behind a relay, and one that is not.
struct Fixture {
  TcpServer server{kLoopback};
  Relay relay{server.endpoint()};
  TcpStore store{relay.endpoint(), 5s};
  TcpStore direct{server.endpoint(), 5s};
};

}  // namespace

TEST_CASE("a connection that was reset while it was idle is made anew by the next call",
          "[store]") {
  Fixture f;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"set", [&] { f.store.set("k", "1"); }},
      {"get", [&] { CHECK(f.store.get("k") == "1"); }},
      {"check", [&] { CHECK(f.store.has("k")); }},
      {"add", [&] { CHECK(f.store.add("k", 1) == 2); }},
      {"compare_set", [&] { CHECK(f.store.compare_set("k", "2", "3") == "3"); }},
      {"append", [&] { f.store.append("k", "4"); }},
      {"num_keys", [&] { CHECK(f.store.num_keys() == 1); }},
      {"queue_push", [&] { f.store.queue_push("q", "element"); }},
      {"queue_pop", [&] { CHECK(f.store.queue_pop("q", 0ms) == "element"); }},
      {"delete_key", [&] { CHECK(f.store.delete_key("k")); }},
  };
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    f.relay.break_now();
    CHECK(error_of(call).empty());
    if (name == "append") CHECK(f.direct.get("k") == "34");
  }
}

TEST_CASE("a request that is lost with its connection is repeated if that does no harm",
          "[store]") {
  Fixture f;
  const auto call_over_broken = [&](const std::function<void()>& call) {
    f.relay.break_at_next_byte();
    return error_of(call);
  };
  CHECK(call_over_broken([&] { f.store.set("k", "1"); }).empty());
  CHECK(f.direct.get("k") == "1");
  CHECK(call_over_broken([&] { CHECK(f.store.get("k") == "1"); }).empty());
  CHECK(call_over_broken([&] { CHECK(f.store.compare_set("new", "", "2") == "2"); }).empty());
  CHECK(call_over_broken([&] { CHECK(f.store.add("k", 0) == 1); }).empty());
  CHECK_THAT(call_over_broken([&] { f.store.add("k", 1); }),
             Catch::Contains("the peer closed the connection"));
  CHECK(f.store.add("k", 1) == 2);
}

TEST_CASE("what must not be sent twice asks after a long pause whether the connection has lasted",
          "[store]") {
  Fixture f;
  TcpStore store(f.relay.endpoint(), TcpStoreOptions{.timeout = 5s, .check_after_idle = 0s});
  f.relay.break_at_next_byte();
  CHECK(store.add("k", 1) == 1);
  f.relay.break_at_next_byte();
  store.append("log", "line");
  CHECK(f.direct.get("log") == "line");
}

TEST_CASE("a wait goes on after its connection was reset", "[store]") {
  Fixture f;
  const std::uint64_t before = f.relay.bytes_to_server();
  auto value = std::async(std::launch::async, [&] { return f.store.get("k", 10s); });
  REQUIRE(test::becomes_true([&] { return f.relay.bytes_to_server() > before; }));
  f.relay.break_now();
  f.direct.set("k", "v");
  CHECK(value.get() == "v");
}

TEST_CASE("a refusal for a moment does not lose the store, however short a call's time is",
          "[store]") {
  Fixture f;
  f.relay.refuse();
  CHECK_FALSE(f.store.wait_for("never", 20ms));
  f.relay.accept_again();
  CHECK(f.store.add("counter", 1) == 1);
}

TEST_CASE("a value is not set a second time after another client has changed it", "[store]") {
  Fixture f;
  f.store.set("k", "0");
  f.relay.break_at_next_byte();
  CHECK_THAT(error_of([&] { (void)f.store.compare_set("k", "0", "1"); }),
             Catch::Contains("the peer closed the connection"));
}

TEST_CASE("another server in the place of the own one is not taken for it", "[store]") {
  Fixture f;
  TcpServer other(kLoopback);
  f.store.set("k", "v");
  f.relay.lead_to(other.endpoint());
  f.relay.break_now();
  CHECK_THAT(error_of([&] { (void)f.store.get("k"); }), Catch::Contains("the peer closed"));
  f.relay.lead_to(f.server.endpoint());
  CHECK_THAT(error_of([&] { (void)f.store.get("k"); }),
             Catch::Contains("the connection is closed"));
}

TEST_CASE("a client says soon that its server is gone", "[store]") {
  Fixture f;
  f.relay.refuse();
  const auto begin = Clock::now();
  CHECK_THAT(error_of([&] { (void)f.store.get("k", 60s); }), Catch::Contains("the peer closed"));
  CHECK(Clock::now() - begin < 2500ms);  // five times the promise
  CHECK_THAT(error_of([&] { (void)f.store.get("k"); }),
             Catch::Contains("the connection is closed"));
}
