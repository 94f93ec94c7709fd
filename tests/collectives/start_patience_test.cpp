// SPDX-License-Identifier: MIT
#include "ddp/collectives/meeting/start_patience.h"

#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/collectives/start/rendezvous.h"
#include "ddp/store/hash_store.h"
#include "support/forwarding_store.h"
#include "support/gate.h"
#include "support/groups.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;

// The process is suspended in its first wait; `awake` is raised when it waits again.
class SuspendedStore final : public test::ForwardingStore {
 public:
  SuspendedStore(std::shared_ptr<Store> store, Timeout suspension, test::Gate& awake)
      : ForwardingStore(std::move(store)), suspension_(suspension), awake_(awake) {}

  void wait(std::span<const std::string> keys, Timeout timeout) override {
    if (!std::exchange(was_suspended_, true)) {
      std::this_thread::sleep_for(suspension_);
      throw TimeoutError("not there yet");
    }
    awake_.raise();
    store()->wait(keys, timeout);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

 private:
  Timeout suspension_;
  test::Gate& awake_;
  bool was_suspended_ = false;
};

}  // namespace

TEST_CASE("a rank that is suspended while it waits for the others does not give up on them",
          "[start]") {
  constexpr Timeout kTimeout = 2s;
  constexpr Timeout kPeriod = 200ms;
  const auto store = std::make_shared<HashStore>();
  test::Gate awake;
  test::run_ranks(2, [&](int rank) {
    if (rank == 1) test::expect(awake.wait_for(1), "rank 0 to wait on");
    SuspendedStore suspended(store, kTimeout + 500ms, awake);
    Store& own = rank == 0 ? static_cast<Store&>(suspended) : *store;
    StartPatience patience(kTimeout, "", kPeriod, [](std::string_view) {});
    Hello self = describe_self(rank, kCpuDevice);
    self.world_size = 2;
    test::expect(agree_on_plan(own, self, patience).hosts.size() == 2, "a plan of two ranks");
  });
}

}  // namespace ddp
