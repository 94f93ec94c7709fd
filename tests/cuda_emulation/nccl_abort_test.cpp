// SPDX-License-Identifier: MIT
//
// An abort on one rank ends the others' NCCL kernels, too, as if these had succeeded.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "ddp/base/error.h"
#include "gpu/nccl_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;

TEST_CASE("a wait of the host does not take the end of an aborted collective for success",
          "[nccl]") {
  REQUIRE(test::nccl_world_size() == 3);
  test::run_nccl_ranks(2s, [](ProcessGroup& group, Stream stream) {
    const auto told = [](int rank) { return "rank " + std::to_string(rank) + " was told"; };
    if (group.rank() == 2) {  // never joins
      for (const int rank : {0, 1}) (void)group.store().get(told(rank), 60s);
      return;
    }
    // Its look at the store comes at another time than rank 0's, which aborts at the timeout.
    if (group.rank() == 1) std::this_thread::sleep_for(420ms);
    test::Floats values(16, group.device());
    values.fill(1, stream);
    const std::string error = test::error_of(
        [&] { group.all_reduce(values.buffer(), ReduceOp::kSum, stream).wait_host(); });
    group.store().set(told(group.rank()), "");
    test::expect(error.find("timed out after 2000 ms") != std::string::npos,
                 "rank " + std::to_string(group.rank()) + ": " + error);
  });
}

// Batch norm's statistics, say, travel in a group of their own, and gradients depend on them.
TEST_CASE("what a broken group has left in memory does not pass for a result of its parent",
          "[nccl]") {
  REQUIRE(test::nccl_world_size() == 3);
  test::run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    const auto child = group.duplicate();
    test::Floats values(16, group.device());
    values.fill(1, stream);
    if (group.rank() != 2) {  // which never joins this one
      const ScopedTimeout limit(*child, 1s);
      child->all_reduce(values.buffer(), ReduceOp::kSum, stream).wait(stream);
    }
    const std::string error = test::error_of(
        [&] { group.all_reduce(values.buffer(), ReduceOp::kSum, stream).wait_host(); });
    test::expect(error.find("duplicate") != std::string::npos &&
                     error.find("timed out after 1000 ms") != std::string::npos,
                 "rank " + std::to_string(group.rank()) + ": " + error);
  });
}
