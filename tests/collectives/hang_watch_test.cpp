// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/hang_watch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/store/hash_store.h"

using namespace ddp;
using namespace std::chrono_literals;

namespace {

std::atomic<int> blocks = 0;  // that a BlockCounter has given and not got back

template <class T>
struct BlockCounter {
  using value_type = T;

  BlockCounter() = default;
  template <class Other>
  BlockCounter(const BlockCounter<Other>&) {}

  T* allocate(std::size_t count) {
    ++blocks;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) {
    --blocks;
    std::allocator<T>().deallocate(memory, count);
  }
  bool operator==(const BlockCounter&) const = default;
};

}  // namespace

TEST_CASE("groups that come and go between two checks of a watch leave no memory", "[hang]") {
  HangWatch watch(std::make_shared<HashStore>(), {.rank = 0}, {.period = 1h});
  for (int i = 0; i < 100; ++i) {
    watch.add("default/split" + std::to_string(i), {0},
              std::allocate_shared<FlightRecorder>(BlockCounter<FlightRecorder>(), 0));
  }
  CHECK(blocks <= 1);
}
