// SPDX-License-Identifier: MIT
//
// What on_rank0 leaves in the store.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "ddp/collectives/on_rank0.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/groups.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::expect;

namespace {

// Runs fn(group, store) on 3 ranks, each a thread with a connection of its own to one store.
template <class F>
void run_on_tcp_store(const F& fn) {
  const TcpServer server({.host = "127.0.0.1", .port = 0});
  test::run_ranks(3, [&](int rank) {
    const auto store = std::make_shared<TcpStore>(server.endpoint());
    const auto group = init_process_group({.backend = Backend::kShm,
                                           .device = DeviceChoice::kCpu,
                                           .rank = rank,
                                           .world_size = 3,
                                           .store = store,
                                           .ranks_are_threads = true,
                                           .hang_watch = {.period = Timeout(0)}});
    fn(*group, *store);
  });
}

}  // namespace

TEST_CASE("calls of on_rank0 leave no keys in the store, also if the function throws",
          "[on_rank0]") {
  run_on_tcp_store([](ProcessGroup& group, TcpStore& store) {
    group.barrier().wait();
    const std::int64_t before = store.num_keys();
    group.barrier().wait();
    for (int i = 0; i < 20; ++i) {
      (void)test::error_of([&] {
        on_rank0(group, [&] {
          if (i % 2 == 1) throw std::runtime_error("no such file");
        });
      });
      if (group.rank() == 0) {
        const std::int64_t after = store.num_keys();
        expect(after == before,
               std::to_string(after) + " keys, as before: " + std::to_string(before));
      }
      group.barrier().wait();
    }
  });
}

TEST_CASE("a rank that comes late to an on_rank0 still finds how it ended", "[on_rank0]") {
  const test::StderrCapture captured;
  run_on_tcp_store([](ProcessGroup& group, TcpStore& store) {
    // Rank 0 has waited in vain when it sets the key.
    if (group.rank() == 1) store.wait(std::array<std::string, 1>{"gone_on"}, 60s);
    on_rank0(group, [] {});
    if (group.rank() == 0) store.set("gone_on", "");
    group.barrier().wait();
  });
  CHECK_THAT(captured.text(), Catch::Contains("rank 1 has not come to this call of rank 0 yet"));
}
