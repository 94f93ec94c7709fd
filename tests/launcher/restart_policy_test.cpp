// SPDX-License-Identifier: MIT
//
// When a job is started again, and what its next attempt finds in the store.
#include "launcher/run/restart_policy.h"

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/worker_keys.h"

using Catch::Matchers::Contains;
using ddp::TcpServer;
using ddp::Timeout;
using namespace ddp::launcher;
using namespace std::chrono_literals;

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

TEST_CASE("a job that fails three times at the same step is not started again", "[restarts]") {
  RestartPolicy policy(10);
  CHECK(policy.after_failure(1, 50).delay);
  CHECK(policy.after_failure(1, 49).delay);
  CHECK(policy.after_failure(1, 50).delay);
  CHECK(policy.after_failure(2, 50).delay);
  const RestartPolicy::Decision third = policy.after_failure(1, 50);
  CHECK_FALSE(third.delay);
  CHECK_THAT(third.reason, Contains("step 50 has failed 3 times in a row, last on rank 1"));
  RestartPolicy unknown(10);
  for (int i = 0; i < 5; ++i) CHECK(unknown.after_failure(1, std::nullopt).delay);
}
