// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/job_store.h"

#include <catch2/catch.hpp>

#include <future>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/routable_address.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"
#include "support/two_addresses.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::uint16_t unused_port() { return TcpServer({"127.0.0.1", 0}).endpoint().port; }

}  // namespace

TEST_CASE("rank 0 hosts the store at all its addresses of the name, and says which they are",
          "[start]") {
  const std::string port = std::to_string(unused_port());
  const WorkerEnv env{
      .rank = 0,
      .world_size = 2,
      .master = {"127.0.0.2,127.0.0.3", static_cast<std::uint16_t>(std::stoi(port))}};
  StartPatience patience(60s);
  const JobStore own = open_job_store({}, env, 60s, patience);
  for (const char* address : {"127.0.0.2", "127.0.0.3"}) {
    CHECK_NOTHROW(TcpStore({address, env.master.port}).set("key", "value"));
  }
  CHECK_THAT(patience.place(), StartsWith("the store at 127.0.0.2,127.0.0.3:" + port +
                                          " (127.0.0.2:" + port + ", 127.0.0.3:" + port + ")") &&
                                   Contains("which only this host can reach"));
}

TEST_CASE("stores of several endpoints that a process hosts are shared, each by its groups",
          "[start]") {
  StartPatience patience(60s);
  const auto open_at = [&](std::uint16_t port) {
    const WorkerEnv env{.rank = 0, .world_size = 2, .master = {"127.0.0.1", port}};
    return open_job_store({}, env, 60s, patience);
  };
  const std::uint16_t first_port = unused_port(), second_port = unused_port();
  const JobStore first = open_at(first_port), second = open_at(second_port);
  first.store->set("key", "of the first");
  CHECK(open_at(first_port).store->get("key") == "of the first");
  CHECK_FALSE(second.store->has("key"));
}

TEST_CASE("a rank that waits for the store says at which addresses", "[start]") {
  const WorkerEnv env{.rank = 1, .world_size = 2, .master = {"127.0.0.2,127.0.0.3", 1}};
  std::string said;
  StartPatience patience(4s, to_string(env.master), 200ms,
                         [&](std::string_view text) { said = text; });
  CHECK_THAT(test::error_of([&] { (void)open_job_store({}, env, 4s, patience); }),
             Contains("has not reached the store at 127.0.0.2,127.0.0.3:1 (127.0.0.2:1, "));
  CHECK_THAT(said, StartsWith("[init] no answer from the store at 127.0.0.2,127.0.0.3:1 "
                              "(127.0.0.2:1, 127.0.0.3:1) after "));
}

TEST_CASE("rank 0 waits for its name to lead to it", "[start]") {
  const WorkerEnv env{
      .rank = 0, .world_size = 2, .master = {"192.0.2.77>127.0.0.1", unused_port()}};
  const test::StderrCapture log;
  StartPatience patience(60s);
  CHECK_NOTHROW(open_job_store({}, env, 60s, patience));
  CHECK_THAT(log.text(), Contains("hosts the store, but MASTER_ADDR is not an address of its host: "
                                  "cannot listen on 192.0.2.77"));
}

TEST_CASE("a rank tries again where a proxy closes connections before the store is there",
          "[start]") {
  const std::string address = test::routable_address();
  if (address.empty()) {
    WARN("SKIPPED: no address but loopback");
    return;
  }
  Socket proxy = Socket::listen({address, 0});
  const WorkerEnv env{.rank = 1, .world_size = 2, .master = proxy.local_endpoint()};
  auto store = std::async(std::launch::async, [&] {
    StartPatience patience(20s);
    return open_job_store({}, env, 20s, patience);
  });
  REQUIRE(proxy.wait_readable(Deadline::after(10s)));
  proxy.accept().reset();
  proxy = Socket();
  const TcpServer server(env.master);
  CHECK_NOTHROW(store.get());
}

TEST_CASE("a store of this host that refuses a rank does so at once, and a wrong name is named",
          "[start]") {
  Socket stranger = Socket::listen({"127.0.0.1", 0});
  const WorkerEnv env{.rank = 1, .world_size = 2, .master = stranger.local_endpoint()};
  auto error = std::async(std::launch::async, [&] {
    StartPatience patience(60s);
    return test::error_of([&] { (void)open_job_store({}, env, 60s, patience); });
  });
  REQUIRE(stranger.wait_readable(Deadline::after(10s)));
  stranger.accept().reset();
  CHECK_THAT(error.get(), Contains("another program may listen there"));
  StartPatience patience(2s);
  const WorkerEnv rank0{.rank = 0, .world_size = 2, .master = {"192.0.2.77>192.0.2.77", 1}};
  CHECK_THAT(test::error_of([&] { (void)open_job_store({}, rank0, 2s, patience); }),
             Contains("MASTER_ADDR is not an address of its host"));
}

TEST_CASE(
    "rank 0 says which scheduler gave it the address of another host, and how to give its own",
    "[start]") {
  for (const auto& [source, advice] :
       {std::pair("mpirun", "mpirun -x MASTER_ADDR=HOST_OF_RANK_0"),
        std::pair("srun", "export MASTER_ADDR=HOST_OF_RANK_0 before srun")}) {
    const WorkerEnv env{
        .rank = 0, .world_size = 2, .master = {"192.0.2.77", 1}, .master_source = source};
    StartPatience patience(2s);
    CHECK_THAT(test::error_of([&] { (void)open_job_store({}, env, 2s, patience); }),
               Contains(std::string("the address in the variables of ") + source +
                        " is not one of its host (" + advice + "): cannot listen on 192.0.2.77"));
  }
}
