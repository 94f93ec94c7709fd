// SPDX-License-Identifier: MIT
//
// Streams, events, memory, and the NCCL group. Run alone, the test has one rank per visible GPU (at
// most four, as threads of this process); even with one GPU, every call runs. Under ddp-launch, the
// ranks share a GPU.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/nccl/nccl_process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/store/hash_store.h"
#include "gpu/abandoned_threads.h"
#include "gpu/emulated.h"
#include "nccl_ranks.h"
#include "support/collective_checks.h"
#include "support/run_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::Floats;
using test::run_nccl_ranks;

namespace {

const Device kGpu = cuda_device(0);

}  // namespace

TEST_CASE("an event orders two streams without the host", "[gpu][cuda]") {
  const std::size_t count = 1 << 24;
  const cu::OwnedStream first(kGpu);
  const cu::OwnedStream second(kGpu, cu::StreamPriority::kGreatest);
  Floats source(count, kGpu);
  Floats target(count, kGpu);
  cu::Event event(kGpu);
  for (int round = 1; round <= 5; ++round) {
    source.fill(round, first.view());
    event.record(first.view());
    event.make_wait(second.view());
    cu::copy(source.buffer(), target.buffer(), second.view());
    CHECK(target.all_equal(static_cast<float>(round), second.view()));
    CHECK(event.done());
  }
}

TEST_CASE("timing events measure a stream", "[gpu][cuda]") {
  const cu::OwnedStream stream(kGpu);
  Floats memory(1 << 24, kGpu);
  cu::Event start(kGpu, cu::EventTiming::kEnabled);
  cu::Event end(kGpu, cu::EventTiming::kEnabled);
  start.record(stream.view());
  memory.fill(1, stream.view());
  end.record(stream.view());
  end.synchronize();
  CHECK(end.milliseconds_since(start) > 0);
  CHECK(start.milliseconds_since(end) < 0);  // DeviceClock relies on this
}

TEST_CASE("handles may be moved and empty", "[gpu][cuda]") {
  cu::OwnedStream stream(kGpu);
  cu::OwnedStream other = std::move(stream);
  stream = cu::OwnedStream(kGpu);
  stream = std::move(other);
  stream.synchronize();
  cu::Event event(kGpu);
  event = cu::Event(kGpu);
  event.record(stream.view());
  event.synchronize();
  CHECK(event.done());
}

TEST_CASE("device memory is zeroed, and an empty allocation has no memory", "[gpu][cuda]") {
  const cu::OwnedStream stream(kGpu);
  CHECK(Floats(1 << 20, kGpu).all_equal(0, stream.view()));
  CHECK(cu::allocate_device(0, kGpu).data() == nullptr);
  CHECK_THROWS_AS(cu::allocate_device(8, kCpuDevice), std::invalid_argument);
  CHECK_THROWS_AS(cu::allocate_device(std::size_t{1} << 60, kGpu), CudaError);
  CHECK(Floats(16, kGpu).all_equal(0, stream.view()));  // the failed call's error was cleared
}

TEST_CASE("a device that does not exist is a CudaError", "[gpu][cuda]") {
  const std::string text = error_of([] { cu::DeviceGuard guard(cuda_device(9999)); });
  CHECK(text.find("cudaErrorInvalidDevice") != std::string::npos);
}

TEST_CASE("every GPU has a PCI bus id of its own", "[gpu][cuda]") {
  for (int i = 1; i < cu::device_count(); ++i) {
    CHECK(cu::pci_bus_id(cuda_device(i)) != cu::pci_bus_id(kGpu));
  }
  CHECK(cu::pci_bus_id(kGpu).size() >= 7);
}

TEST_CASE("creating a group makes its device current", "[gpu][cuda]") {
  // If every device is in use, guards restore the previous device, so that the right device is not
  // current by chance. The guards ask the driver, which the real runtime has loaded already, but
  // the emulated one has not.
  REQUIRE(dlopen("libcuda.so.1", RTLD_LAZY) != nullptr);
  std::vector<cu::OwnedStream> in_use;
  for (int i = 0; i < cu::device_count(); ++i) in_use.emplace_back(cuda_device(i));
  for (int i = cu::device_count() - 1; i >= 0; --i) {
    const auto group = init_process_group(
        {.device = DeviceChoice::kCuda, .rank = 0, .world_size = 1, .local_rank = i});
    int current = -1;
    CHECK(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == i);
    CHECK(group->device() == cuda_device(i));
  }
}

TEST_CASE("the version of NCCL is known", "[gpu][nccl]") {
  CHECK(nccl_version().starts_with("2."));
}

TEST_CASE("all_reduce sums and averages behind the producer's work", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    const auto ranks = static_cast<float>(group.world_size());
    Floats many(1000003, group.device()), few(1009, group.device());
    for (int round = 1; round <= 300; ++round) {  // more rounds than the group has events
      const bool is_read = round % 50 <= 1;
      // The round before those that are read may be overtaken by them.
      Floats& values = test::is_emulated() && (round + 1) % 50 > 2 ? few : many;
      values.fill(group.rank() + round, stream);
      const ReduceOp op = round % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAverage;
      group.all_reduce(values.buffer(), op, stream).wait(stream);
      const float sum = ranks * (ranks - 1) / 2 + ranks * static_cast<float>(round);
      if (!is_read) continue;
      const std::vector<float> result = values.read(stream);
      const float expected = op == ReduceOp::kSum ? sum : sum * static_cast<float>(1.0 / ranks);
      expect(std::all_of(result.begin(), result.end(), [&](float f) { return f == expected; }),
             "all_reduce " + std::to_string(round));
    }
  });
}

TEST_CASE("every collective runs, even without elements", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    const auto ranks = static_cast<std::size_t>(group.world_size());
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1009}}) {
      Floats share(n, group.device());
      Floats whole(n * ranks, group.device());
      share.fill(1, stream);
      whole.fill(2, stream);
      group.all_gather(share.buffer(), whole.buffer(), stream).wait(stream);
      expect(whole.all_equal(1, stream), "all_gather");
      group.reduce_scatter(whole.buffer(), share.buffer(), ReduceOp::kSum, stream).wait(stream);
      expect(share.all_equal(static_cast<float>(ranks), stream), "reduce_scatter");
      group.gather(share.buffer(), whole.buffer(), 0, stream).wait(stream);
      if (group.rank() == 0) {
        expect(whole.all_equal(static_cast<float>(ranks), stream), "gather");
      }
      whole.fill(5, stream);
      group.scatter(whole.buffer(), share.buffer(), 0, stream).wait(stream);
      expect(share.all_equal(5, stream), "scatter");
      Floats exchanged(n * ranks, group.device());
      group.all_to_all(whole.buffer(), exchanged.buffer(), stream).wait(stream);
      expect(exchanged.all_equal(5, stream), "all_to_all");
      share.fill(group.rank() + 1, stream);
      group.broadcast(share.buffer(), 0, stream).wait(stream);
      expect(share.all_equal(1, stream), "broadcast");
      group.reduce(share.buffer(), 0, ReduceOp::kAverage, stream).wait(stream);
      expect(share.all_equal(1, stream), "reduce");
      group.barrier(stream).wait_host(30s);
    }
  });
}

TEST_CASE("every collective is exact, with each operation and dtype", "[gpu][nccl][exact]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream) {
    for (const DType dtype : kAllDTypes) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{4099}}) {
        test::check_all(group, dtype, count);
      }
    }
    test::check_all(group, DType::kFloat32, 1000003);  // several steps of NCCL's pipeline
  });
}

TEST_CASE("operations of a batch start together and share a Work", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    Floats a(1000, group.device());
    Floats b(77, group.device());
    a.fill(1, stream);
    b.fill(group.rank(), stream);
    auto batch = group.batch();
    const Work inner = group.all_reduce(a.buffer(), ReduceOp::kSum, stream);
    static_cast<void>(group.all_reduce(b.buffer(), ReduceOp::kAverage, stream));
    expect(!error_of([&] { inner.wait(stream); }).empty(), "no wait before the end");
    batch.end().wait(stream);
    inner.wait_host(30s);
    expect(a.all_equal(static_cast<float>(group.world_size()), stream), "sum");
    expect(b.all_equal(static_cast<float>(group.world_size() - 1) / 2, stream), "average");
  });
}

TEST_CASE("a batch that an exception ends starts nothing, and the group still works",
          "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    Floats discarded(1000, group.device());
    Floats values(1000, group.device());
    discarded.fill(1, stream);
    values.fill(1, stream);
    const auto interrupted = [&] {
      auto batch = group.batch();
      (void)group.all_reduce(discarded.buffer(), ReduceOp::kSum, stream);
      throw std::runtime_error("on purpose");
    };
    expect(error_of(interrupted) == "on purpose", "the exception");
    group.all_reduce(values.buffer(), ReduceOp::kSum, stream).wait(stream);
    group.batch().end().wait(stream);
    expect(discarded.all_equal(1, stream), "the batch did not start");
    expect(values.all_equal(static_cast<float>(group.world_size()), stream), "the next operation");
    const Deadline deadline = Deadline::after(20s);  // the watchdog looks only periodically
    while (group.recorder().oldest_pending() && !deadline.passed()) std::this_thread::yield();
    expect(!deadline.passed(), "nothing stays pending");
  });
}

TEST_CASE("group memory is zeroed, reduces, and is released in any order", "[gpu][nccl]") {
  Allocation outlives;
  run_nccl_ranks(60s, [&](ProcessGroup& group, Stream stream) {
    Allocation memory = group.allocate(1 << 20);
    const Buffer buffer{memory.data(), 1 << 18, DType::kFloat32, group.device()};
    Floats check(1 << 18, group.device());
    cu::copy(buffer, check.buffer(), stream);
    expect(check.all_equal(0, stream), "zeros");
    cu::fill(buffer, 1, stream);
    group.all_reduce(buffer, ReduceOp::kSum, stream).wait(stream);
    cu::copy(buffer, check.buffer(), stream);
    expect(check.all_equal(static_cast<float>(group.world_size()), stream), "sum");
    expect(group.allocate(0).data() == nullptr, "no memory for nothing");
    if (group.rank() == 0) outlives = std::move(memory);
  });
}

// Longer than a release waits for an operation that uses the memory, which lies between operands.
TEST_CASE("group memory is released while an operation waits that does not use it", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    constexpr std::size_t kCount = 1000;
    const auto ranks = static_cast<std::size_t>(group.world_size());
    Allocation memory = group.allocate((3 + ranks) * kCount * sizeof(float));
    const Buffer floats{memory.data(), (3 + ranks) * kCount, DType::kFloat32, group.device()};
    const Buffer unrelated = floats.slice(kCount, kCount);
    const auto make_last_rank_late = [&] {
      if (group.rank() == group.world_size() - 1) std::this_thread::sleep_for(1500ms);
    };
    const auto check = [&](const Work& work) {
      expect(group.release(unrelated), "no operation uses it");
      work.wait_host();
    };
    make_last_rank_late();
    check(group.all_gather(floats.slice(0, kCount), floats.slice(3 * kCount, ranks * kCount),
                           stream));
    make_last_rank_late();
    auto batch = group.batch();
    (void)group.all_reduce(floats.slice(0, kCount), ReduceOp::kSum, stream);
    (void)group.all_reduce(floats.slice(2 * kCount, kCount), ReduceOp::kSum, stream);
    check(batch.end());
  });
}

TEST_CASE("abort breaks the group on all ranks with one sentence", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    Floats values(16, group.device());
    const int last = group.world_size() - 1;
    const auto is_made = [](int rank) { return "rank " + std::to_string(rank) + " is made"; };
    group.store().set(is_made(group.rank()), "");
    if (group.rank() == last) {
      // Otherwise others may hear of the abort while they still make the group.
      for (int rank = 0; rank < last; ++rank) (void)group.store().get(is_made(rank), 30s);
      group.abort("it is a test");
    }
    const Deadline deadline = Deadline::after(20s);
    std::string text;
    while (text.empty() && !deadline.passed()) {
      text =
          error_of([&] { group.all_reduce(values.buffer(), ReduceOp::kSum, stream).wait_host(); });
    }
    expect(text == "[nccl] rank " + std::to_string(last) + " aborted: it is a test",
           "one cause: " + text);
  });
}

TEST_CASE("a timeout is a TimeoutError on all ranks", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    if (group.world_size() == 1) return;
    Floats values(16, group.device());
    values.fill(1, stream);
    if (group.rank() == group.world_size() - 1) {
      (void)group.store().get("others have given up", 30s);
      std::this_thread::sleep_for(500ms);  // five times the period in which watchdogs abort
    }
    const ScopedTimeout timeout(group, 1s);
    bool is_timeout = false;
    try {
      group.all_reduce(values.buffer(), ReduceOp::kSum, stream).wait_host();
    } catch (const TimeoutError&) {
      is_timeout = true;
    }
    group.store().set("others have given up", "");
    expect(is_timeout, "TimeoutError on rank " + std::to_string(group.rank()));
  });
}

TEST_CASE("a group tells when its last operations ran", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    Floats values(1000, group.device());
    const auto reduce = [&] { return group.all_reduce(values.buffer(), ReduceOp::kSum, stream); };
    expect(!error_of([&] { group.start_timing(0); }).empty(), "0 operations are refused");
    const Work before = reduce();
    group.start_timing(2);
    const Work operations[] = {reduce(), reduce(), reduce()};
    operations[2].wait_host();
    expect(!before.interval() && !operations[0].interval(), "nothing of those before");
    for (const Work& operation : std::span(operations).last(2)) {
      const auto interval = operation.interval();
      expect(interval && interval->begin <= interval->end, "an interval");
    }
  });
}

TEST_CASE("a duplicate and a split group work together with their parent", "[gpu][nccl]") {
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream stream) {
    const auto part = group.split(0, -group.rank());
    expect(part->rank() == group.world_size() - 1 - group.rank(), "ranks by key");
    const auto other = group.duplicate();
    Floats a(1000, group.device());
    Floats b(1000, group.device());
    a.fill(1, stream);
    b.fill(2, stream);
    const Work on_parent = group.all_reduce(a.buffer(), ReduceOp::kSum, stream);
    const Work on_other = other->all_reduce(b.buffer(), ReduceOp::kMax, stream);
    on_parent.wait(stream);
    on_other.wait(stream);
    expect(a.all_equal(static_cast<float>(group.world_size()), stream), "parent");
    expect(b.all_equal(2, stream), "duplicate");
  });
}

// The stream reaches the second operation only after the first one, which never ends by itself.
TEST_CASE("an exception leaves a group soon although its last operation waits for an earlier one",
          "[gpu][nccl]") {
  const bool is_handled = GENERATE(false, true);  // the group is destroyed by the handler
  run_nccl_ranks(60s, [=](ProcessGroup& group, Stream stream) {
    if (group.world_size() == 1) return;
    auto own = group.duplicate();
    Floats values(16, group.device());
    // NCCL connects in a first operation, whose call waits for the other ranks.
    own->all_reduce(values.buffer(), ReduceOp::kSum, stream).wait(stream);
    cu::synchronize(stream);
    const int late = group.world_size() - 1;
    const auto gone = [](int rank) { return "gone/" + std::to_string(rank); };
    if (group.rank() == late) {
      for (int rank = 0; rank < late; ++rank) (void)group.store().get(gone(rank), 60s);
      return;
    }
    own->all_reduce(values.buffer(), ReduceOp::kSum, stream).wait(stream);
    (void)own->all_reduce(values.buffer(), ReduceOp::kSum, stream);
    const Deadline deadline = Deadline::after(5s);  // 5 times the promise
    try {
      const auto left = is_handled ? nullptr : std::move(own);
      throw std::runtime_error("on purpose");
    } catch (const std::runtime_error&) {
      own.reset();
    }
    const bool is_late = deadline.passed();
    group.store().set(gone(group.rank()), "");
    expect(!is_late, "left in time");
  });
}

TEST_CASE("a rank that never starts causes a TimeoutError", "[gpu][nccl]") {
  GroupConfig config;
  config.store = std::make_shared<HashStore>();
  config.world_size = 2;
  config.device = kGpu;
  config.start_timeout = 3s;
  test::has_abandoned_threads = true;
  CHECK_THROWS_AS(make_nccl_process_group(config), TimeoutError);
}
