// SPDX-License-Identifier: MIT
//
// A process uses the GPU of its rank alone, whichever thread calls libddp, and so whichever device
// is current there: CUDA creates a context of some hundred megabytes on each device that a call
// names by accident. Ranks are threads with the GPUs 1 and 2; the current device of a new thread is
// GPU 0.
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "cuda_emulation/device.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/nccl/nccl_process_group.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/io/host_copy.h"
#include "ddp/nn/context.h"
#include "ddp/store/hash_store.h"
#include "support/run_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::expect;

namespace {

constexpr std::size_t kElements = 1000;
constexpr std::size_t kRegisteredBytes = std::size_t{1} << 20;  // memory of NCCL is no smaller
constexpr int kSteps = 6;

// Runs f on a thread that has not used CUDA yet.
template <class F>
auto on_new_thread(F f) {
  return std::async(std::launch::async, f).get();
}

void run_ranks_on_gpus(const std::function<void(const std::shared_ptr<ProcessGroup>&)>& body) {
  HashStore store;
  test::run_ranks(2, [&](int rank) {
    GroupConfig config;
    config.store = store.clone();
    config.rank = rank;
    config.world_size = 2;
    config.device = cuda_device(rank + 1);
    config.timeout = config.start_timeout = 30s;
    body(on_new_thread([&] { return make_nccl_process_group(config); }));
  });
}

Allocation floats(Device device) { return cu::allocate_device(kElements * sizeof(float), device); }

Buffer buffer_in(const Allocation& memory, Device device) {
  return {memory.data(), kElements, DType::kFloat32, device};
}

// A model of two parameters, one of them with a gradient in the caller's memory, and a buffer.
class Trainee {
 public:
  Trainee(const std::shared_ptr<ProcessGroup>& group, DdpOptions options)
      : device_(group->device()), stream_(device_) {
    for (Allocation& each : memory_) each = floats(device_);
    options.buffers = {{"statistics", buffer(3)}};
    ddp_.emplace(group,
                 std::vector<Parameter>{{"first", {kElements}, buffer(0)},
                                        {"second", {kElements}, buffer(1), buffer(2)}},
                 std::move(options));
  }

  void step() {
    on_new_thread([&] { ddp_->begin_forward(stream_.view()); });
    on_new_thread([&] {
      (void)ddp_->begin_step();
      ddp_->record_metric(0, buffer(1).slice(0, 1), 1);
    });
    for (const std::size_t i : {1, 0}) {
      on_new_thread([&] {
        fill(ddp_->gradient(i), 1, stream_.view());
        ddp_->mark_ready(i, stream_.view());
      });
    }
    on_new_thread([&] { ddp_->wait(stream_.view()); });
    on_new_thread([&] { expect(ddp_->should_step() && ddp_->is_used(0), "a step"); });
    on_new_thread([&] { expect(ddp_->summary().samples == 2, "samples of both ranks"); });
  }

  DistributedDataParallel& ddp() { return *ddp_; }

 private:
  [[nodiscard]] Buffer buffer(std::size_t i) const { return buffer_in(memory_.at(i), device_); }

  Device device_;
  cu::OwnedStream stream_;
  std::array<Allocation, 4> memory_;
  std::optional<DistributedDataParallel> ddp_;
};

void check_leaves_gpu0_alone() {
  CHECK_FALSE(emulation::has_context(0));
  CHECK(emulation::has_context(1));
  CHECK(emulation::has_context(2));
}

}  // namespace

TEST_CASE("an engine uses the GPU of its rank alone", "[cuda]") {
  std::vector<DdpOptions> all(6);
  all[1].unused = UnusedParameters::kZero;
  all[2].hook = compress_to_float16;
  all[3].non_finite = NonFinite::kStop;
  all[3].scan_gradients = true;
  all[4].fingerprint_every = 1;
  all[4].buffer_sync = BufferSync::kEveryForward;
  all[5].record_times = true;
  all[5].scale_at_ready = true;
  for (const DdpOptions& options : all) {
    run_ranks_on_gpus([&](const std::shared_ptr<ProcessGroup>& group) {
      auto trainee = on_new_thread([&] { return std::make_unique<Trainee>(group, options); });
      for (int step = 0; step < kSteps; ++step) trainee->step();
      if (options.record_times) on_new_thread([&] { (void)trainee->ddp().times(); });
      on_new_thread([&] { trainee.reset(); });
    });
  }
  check_leaves_gpu0_alone();
}

TEST_CASE("collectives use the GPU of their rank alone", "[cuda]") {
  run_ranks_on_gpus([](const std::shared_ptr<ProcessGroup>& group) {
    const auto child = on_new_thread([&] { return group->duplicate(); });
    on_new_thread([&] {
      std::vector<double> values = {1, 2};
      all_reduce_on_host(*child, values);
      expect(values == std::vector<double>{2, 4}, "the sums");
    });
    on_new_thread([&] { group->barrier().wait_host(); });
    Allocation memory = on_new_thread([&] { return group->allocate(kRegisteredBytes); });
    on_new_thread([&] {
      auto batch = group->batch();
      for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kMax}) {
        (void)group->all_reduce(buffer_in(memory, group->device()), op, Stream{});
      }
      batch.end().wait_host();
    });
    on_new_thread([&] { memory = {}; });
  });
  check_leaves_gpu0_alone();
}

TEST_CASE("a context computes on its GPU, and is destroyed there", "[cuda]") {
  const auto context = on_new_thread([] { return std::make_unique<nn::Context>(cuda_device(1)); });
  const std::vector<float> ones(4, 1);
  const auto product = on_new_thread([&] {
    const nn::Tensor a = context->from_host<float>(ones, {2, 2});
    const nn::Tensor b = context->empty({2, 2}, DType::kFloat32);
    context->gemm(a.buffer(), a.buffer(), b.buffer(), {2, 2, 2}, {});
    return context->to_host<float>(b);
  });
  CHECK(product == std::vector<float>(4, 2));
  CHECK_FALSE(emulation::has_context(0));
}

TEST_CASE("a checkpoint's copy is made on the GPU of the tensors", "[cuda]") {
  const Allocation memory = floats(cuda_device(1));
  const std::vector<NamedBuffer> tensors = {{"x", {kElements}, buffer_in(memory, cuda_device(1))}};
  HostCopy copy;
  on_new_thread([&] { copy.take(tensors); });
  CHECK(copy.tensors().front().buffer.as<float>()[0] == 0);
  CHECK_FALSE(emulation::has_context(0));
}
