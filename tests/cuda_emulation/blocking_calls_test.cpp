// SPDX-License-Identifier: MIT
//
// Tests what libddp does while CUDA calls block, as they do behind a kernel that waits in vain for
// a peer. This program overrides some functions of the emulated runtime.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/nccl/nccl_watchdog.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "support/fake_nccl.h"
#include "support/forwarding_store.h"
#include "support/gate.h"

using namespace ddp;
using namespace std::chrono_literals;

namespace {

constexpr Device kGpu = cuda_device(0);

std::atomic<bool> device_hangs = false;
std::atomic<int> queries = 0;
std::atomic<int> frees = 0;
std::atomic<int> aborts = 0;

void wait_while_device_hangs() {
  while (device_hangs) std::this_thread::sleep_for(1ms);
}

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Makes the device hang as long as this object exists.
struct Hang {
  Hang() { device_hangs = true; }
  ~Hang() { device_hangs = false; }
};

// Waits for the condition; false if it is still not true at the deadline.
template <class Condition>
bool eventually(const Condition& condition, Timeout timeout = 5s) {
  const Deadline deadline = Deadline::after(timeout);
  while (!condition() && !deadline.passed()) std::this_thread::sleep_for(1ms);
  return condition();
}

NcclApi abortable_nccl() {
  NcclApi nccl{};
  nccl.get_unique_id = [](ncclUniqueId*) { return ncclSuccess; };
  nccl.comm_init_rank_config = [](ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
    *comm = reinterpret_cast<ncclComm_t>(&aborts);  // any non-null pointer
    return ncclSuccess;
  };
  nccl.comm_abort = [](ncclComm_t) {
    ++aborts;
    return ncclSuccess;
  };
  nccl.comm_get_async_error = [](ncclComm_t, ncclResult_t* state) {
    *state = ncclSuccess;
    return ncclSuccess;
  };
  return nccl;
}

// A store that does not answer whoever reads from it.
class SilentStore final : public test::ForwardingStore {
 public:
  SilentStore(std::shared_ptr<Store> store, test::Gate& asked, test::Gate& end)
      : ForwardingStore(std::move(store)), asked_(asked), end_(end) {}

  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    if (expected == desired) {  // Store::find()
      asked_.raise();
      (void)end_.wait_for(1);
    }
    return ForwardingStore::compare_set(key, expected, desired);
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override { return store()->clone(timeout); }

 private:
  test::Gate& asked_;
  test::Gate& end_;
};

// A group of two with one operation on its stream, and what watches it.
struct WatchedGroup {
  explicit WatchedGroup(Timeout timeout_of_operation, std::shared_ptr<Store> store_of_errors = {})
      : first_error(store_of_errors ? std::move(store_of_errors) : store.clone(), 0) {
    operations.begin({}, timeout_of_operation);
    operations.record(stream.view());
  }
  [[nodiscard]] NcclWatchdog::Watched watched(Timeout patience) {
    return {communicator, operations, first_error, recorder, roll, config, names, patience};
  }

  HashStore store;
  GroupConfig config{
      .store = store.clone(), .background_store = store.clone(), .world_size = 2, .device = kGpu};
  GroupNames names{config};
  NcclCommunicator communicator{test::without_peers(config), abortable_nccl()};
  EventRing operations{kGpu};
  cu::OwnedStream stream{kGpu};
  FirstError first_error;
  FlightRecorder recorder;
  PeerRoll roll{config};
};

}  // namespace

cudaError_t cudaDeviceSynchronize() {
  wait_while_device_hangs();
  return next(&cudaDeviceSynchronize, "cudaDeviceSynchronize")();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  ++queries;
  wait_while_device_hangs();
  return next(&cudaEventQuery, "cudaEventQuery")(event);
}

cudaError_t cudaFree(void* memory) {
  ++frees;
  return next(&cudaFree, "cudaFree")(memory);
}

TEST_CASE("the watchdog aborts a group that is broken before it asks CUDA anything", "[nccl]") {
  WatchedGroup group(60s);
  group.first_error.set(std::runtime_error("on purpose"));
  const int aborted_before = aborts;
  const Hang hang;
  const NcclWatchdog watchdog(group.watched(60s));
  CHECK(eventually([&] { return aborts == aborted_before + 1; }));
  device_hangs = false;  // otherwise a watchdog that synchronizes would never end
}

// As when the host has filled a stream behind a collective in which a peer hangs: the driver then
// makes other threads wait, too.
TEST_CASE("the watchdog aborts a group that another rank breaks while CUDA does not answer",
          "[nccl]") {
  WatchedGroup group(60s);
  const int aborted_before = aborts, asked_before = queries;
  const Hang hang;
  const NcclWatchdog watchdog(group.watched(60s));
  REQUIRE(eventually([&] { return queries > asked_before; }));
  FirstError(group.store.clone(), 1).set(std::runtime_error("another rank's"));
  CHECK(eventually([&] { return aborts == aborted_before + 1; }));
  device_hangs = false;
}

TEST_CASE("the watchdog aborts a broken group though neither CUDA nor the store answers",
          "[nccl]") {
  test::Gate asked, end;
  HashStore store;
  WatchedGroup group(60s, std::make_shared<SilentStore>(store.clone(), asked, end));
  const int aborted_before = aborts;
  const Hang hang;
  const NcclWatchdog watchdog(group.watched(60s));
  REQUIRE(asked.wait_for(1));
  group.first_error.set(std::runtime_error("on purpose"));
  CHECK(eventually([&] { return aborts == aborted_before + 1; }));
  end.raise();
  device_hangs = false;
}

TEST_CASE("an overdue operation breaks its group though CUDA does not answer", "[nccl]") {
  WatchedGroup group(100ms);
  const int aborted_before = aborts;
  const Hang hang;
  const NcclWatchdog watchdog(group.watched(300ms));
  CHECK(eventually([&] { return aborts == aborted_before + 1; }));
  CHECK_THROWS_AS(group.first_error.rethrow_if_set(), TimeoutError);
  device_hangs = false;
}

TEST_CASE("an operation has its whole time though CUDA does not answer", "[nccl]") {
  WatchedGroup group(60s);
  const int aborted_before = aborts, asked_before = queries;
  {
    const Hang hang;
    const NcclWatchdog watchdog(group.watched(100ms));
    REQUIRE(eventually([&] { return queries > asked_before; }));
    std::this_thread::sleep_for(500ms);
    device_hangs = false;
  }
  CHECK(aborts == aborted_before);
  CHECK_FALSE(group.first_error.is_set());
}

// The device may compute for long before it reaches its own part.
TEST_CASE("the watchdog ends an operation only if a rank has left without its part", "[nccl]") {
  WatchedGroup group(60s);
  group.recorder.submitted(1, {});  // a barrier
  GroupConfig config = group.config;
  config.rank = 1;
  const bool has_done_its_part = GENERATE(true, false);
  PeerRoll(config).leave(has_done_its_part ? 1 : 0);
  const int aborted_before = aborts;
  const Hang hang;
  const NcclWatchdog watchdog(group.watched(60s));
  const auto is_aborted = [&] { return aborts == aborted_before + 1; };
  CHECK(eventually(is_aborted, has_done_its_part ? 2s : 5s) != has_done_its_part);
  CHECK(group.first_error.is_set() != has_done_its_part);
  device_hangs = false;
}

TEST_CASE("memory of a device that hangs is freed once the device has finished", "[cuda]") {
  Allocation first = cu::allocate_device(64, kGpu), second = cu::allocate_device(64, kGpu);
  const int freed_before = frees;
  {
    const Hang hang;
    const Deadline bound = Deadline::after(50s);  // five times the promise
    first = {};
    second = {};
    CHECK_FALSE(bound.passed());
    CHECK(frees == freed_before);
  }
  CHECK(eventually([&] { return frees == freed_before + 2; }));
  Allocation third = cu::allocate_device(64, kGpu);
  third = {};
  CHECK(frees == freed_before + 3);  // freeing waits for the device again
}

TEST_CASE("a wait of a single rank for its busy device ends at its timeout", "[cuda]") {
  const auto group = init_process_group({.device = DeviceChoice::kCuda, .world_size = 1});
  const cu::OwnedStream stream(kGpu);
  test::Gate gate;
  const auto wait = [](void* data) { (void)static_cast<test::Gate*>(data)->wait_for(1); };
  const auto native = stream.view().native;
  REQUIRE(cudaLaunchHostFunc(native, wait, &gate) == cudaSuccess);
  const Allocation memory = group->allocate(sizeof(float));
  const Buffer element{memory.data(), 1, DType::kFloat32, kGpu};
  const Work work = group->all_reduce(element, ReduceOp::kSum, stream.view());
  const Deadline bound = Deadline::after(8s);  // the device is busy for ten
  CHECK_THROWS_AS(work.wait_host(400ms), TimeoutError);
  CHECK_FALSE(bound.passed());
  gate.raise();
  work.wait_host(10s);
}
