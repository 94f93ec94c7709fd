// SPDX-License-Identifier: MIT
//
// The engine's policies on CUDA, as engine_policies_test has them for the CPU: wrong steps,
// unused parameters, mixed types, hooks, buffers, checks, and what steps cost. The last rank is the
// one that differs; where a single rank cannot differ from another, the case needs two.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/on_rank0.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "nccl_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::Floats;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A model of three parameters with its engine on one rank. Each gradient is constant.
struct Trainee {
  Trainee(ProcessGroup& group, Stream own_stream, DdpOptions options = {},
          const std::vector<DType>& dtypes = std::vector(3, DType::kFloat32),
          const std::string& last_name = "fc2.weight")
      : stream(own_stream),
        ddp(group.shared_from_this(), parameters(group.device(), dtypes, last_name),
            std::move(options)) {}

  void mark(std::size_t i, double gradient) {
    cu::fill(ddp.gradient(i), gradient, stream);
    ddp.mark_ready(i, stream);
  }

  // A step in which all gradients are `gradient`.
  void step(double gradient) {
    const double factor = ddp.begin_step();
    for (const std::size_t i : {2, 1, 0}) mark(i, factor * gradient);
    ddp.wait(stream);
  }

  // The last element of a reduced gradient.
  double reduced(std::size_t i) {
    cu::synchronize(stream);
    const Buffer gradient = ddp.gradient(i);
    return item(gradient.slice(gradient.count - 1, 1));
  }

  std::vector<Parameter> parameters(Device device, const std::vector<DType>& dtypes,
                                    const std::string& last_name) {
    const std::pair<std::string, std::size_t> sizes[] = {
        {"fc1.weight", 10007}, {"fc1.bias", 7}, {last_name, 300}};
    std::vector<Parameter> all;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto& [name, count] = sizes[i];
      memory.push_back(cu::allocate_device(count * size_of(dtypes[i]), device));
      const Buffer value{memory.back().data(), count, dtypes[i], device};
      cu::fill(value, 0, stream);
      all.push_back({name, {static_cast<std::int64_t>(count)}, value});
    }
    cu::synchronize(stream);
    return all;
  }

  std::vector<Allocation> memory;
  Stream stream;
  DistributedDataParallel ddp;
};

void run(const test::RankBody& body) { test::run_nccl_ranks(30s, body); }

bool is_last(const ProcessGroup& group) { return group.rank() == group.world_size() - 1; }

bool is_single() {
  if (test::nccl_world_size() >= 2) return false;
  WARN("SKIPPED: there is one GPU");
  return true;
}

void expect_part(const std::string& text, const std::string& part) {
  expect(text.find(part) != std::string::npos, "'" + part + "' in '" + text + "'");
}

// Doubles what it reduces.
class DoublingHook final : public GradientHook {
 public:
  explicit DoublingHook(ProcessGroup& group) : group_(group) {}
  std::string name() const override { return "doubling"; }
  Work launch(const GradientBucket& bucket, Stream producer) override {
    return work_ = group_.all_reduce(bucket.gradients, ReduceOp::kSum, producer);
  }
  void finish(const GradientBucket& bucket, Stream consumer) override {
    work_.wait(consumer);
    cu::scale(bucket.gradients, 2, consumer);
  }

 private:
  ProcessGroup& group_;
  Work work_;
};

}  // namespace

TEST_CASE("a wrong backward on a device is an error on all ranks, in the same step",
          "[gpu][engine]") {
  for (const bool is_missing : {true, false}) {
    run([&](ProcessGroup& group, Stream stream) {
      Trainee trainee(group, stream);
      trainee.step(1);
      const std::string error = error_of([&] {
        const double factor = trainee.ddp.begin_step();
        for (const std::size_t i : {2, 1, 0}) {
          if (is_missing && is_last(group) && i == 1) continue;
          trainee.mark(i, factor);
          if (!is_missing && is_last(group) && i == 1) trainee.mark(i, factor);
        }
        trainee.ddp.wait(stream);
        trainee.ddp.wait_host();
      });
      expect_part(error, "[ddp] rank " + std::to_string(group.world_size() - 1) + ", step 2: " +
                             (is_missing ? "backward gave no gradient for 'fc1.bias'"
                                         : "'fc1.bias' was marked ready twice"));
    });
  }
}

TEST_CASE("ranks on devices that differ in passes or models are told so",
          "[gpu][engine][multi_gpu]") {
  if (is_single()) return;
  run([](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream);
    const int passes = is_last(group) ? 3 : 2;
    const std::string error = error_of([&] {
      trainee.ddp.accumulate(passes);
      for (int i = 0; i < passes; ++i) trainee.step(1);
      (void)trainee.ddp.summary();
    });
    expect_part(error, "ranks differ in the backward passes of a step: rank 0 made 2, rank ");
    expect_part(error, "made 3");
  });
  run([](ProcessGroup& group, Stream stream) {
    const std::string name = is_last(group) ? "head" : "fc2.weight";
    const std::string error = error_of([&] {
      Trainee trainee(group, stream, {}, {3, DType::kFloat32}, name);
    });
    expect_part(error, "[ddp] models differ in parameter 2: rank 0 has 'fc2.weight' float32[300]");
    expect_part(error, "has 'head' float32[300]");
  });
}

TEST_CASE("a model on a device may mix types, and a hook of the user's may replace the sum",
          "[gpu][engine]") {
  for (const bool is_hooked : {false, true}) {
    run([&](ProcessGroup& group, Stream stream) {
      DdpOptions options;
      if (is_hooked) {
        options.hook = [](ProcessGroup& g, const BucketLayout&) {
          return std::make_unique<DoublingHook>(g);
        };
      }
      Trainee trainee(group, stream, options, {DType::kFloat32, DType::kBFloat16, DType::kFloat64});
      expect(trainee.ddp.layout().buckets.size() >= 3, "buckets of one type each");
      const int world = group.world_size();
      for (int step = 0; step < 3; ++step) {
        trainee.step(group.rank() + 1);
        const double factor = is_hooked && world > 1 ? 2 : 1;  // no hook in a world of one
        const double mean = factor * (world + 1) / 2.0;
        for (const std::size_t i : {0, 1, 2}) expect(trainee.reduced(i) == mean, "the mean");
      }
    });
  }
}

TEST_CASE("ranks may use different parameters on devices, and unused ones are zeros",
          "[gpu][engine]") {
  run([](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream, {.unused = UnusedParameters::kZero});
    trainee.step(7);  // leaves sevens in the buckets
    const double factor = trainee.ddp.begin_step();
    trainee.mark(0, factor * 6);
    if (is_last(group)) trainee.mark(1, factor * 12);
    trainee.ddp.wait(stream);
    expect(trainee.reduced(0) == 6, "all ranks use it");
    expect(std::abs(trainee.reduced(1) - 12.0 / group.world_size()) < 1e-6, "one rank does");
    expect(trainee.reduced(2) == 0, "nobody does");
    const DistributedDataParallel& ddp = trainee.ddp;
    expect(ddp.is_used(0) && ddp.is_used(1) && !ddp.is_used(2), "the agreed use");
    trainee.step(3);
    expect(trainee.reduced(2) == 3 && ddp.is_used(2), "used again");
  });
}

TEST_CASE("a static graph on a device learns which parameters are shared and unused",
          "[gpu][engine]") {
  run([](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream, {.unused = UnusedParameters::kStatic});
    const auto step = [&](int uses) {
      const double factor = trainee.ddp.begin_step();
      for (int use = 1; use <= uses; ++use) trainee.mark(2, factor * use);
      trainee.mark(0, factor * 9);
      trainee.ddp.wait(stream);
    };
    for (int i = 0; i < 4; ++i) {
      step(2);
      expect(trainee.reduced(2) == 2 && trainee.reduced(0) == 9, "the values at the last use");
      expect(trainee.reduced(1) == 0 && !trainee.ddp.is_used(1), "an unused one");
    }
    const std::string error = error_of([&] {
      step(is_last(group) ? 1 : 2);
      trainee.ddp.wait_host();
    });
    expect_part(error, "rank " + std::to_string(group.world_size() - 1) +
                           ", step 5: backward gave fewer gradients for 'fc2.weight' than in the "
                           "first pass");
  });
}

TEST_CASE("buffers on devices are sent on demand, at every forward, or never", "[gpu][engine]") {
  for (const BufferSync sync :
       {BufferSync::kOnDemand, BufferSync::kEveryForward, BufferSync::kNever}) {
    run([&](ProcessGroup& group, Stream stream) {
      Floats statistics(3, group.device());
      const auto own = static_cast<float>(group.rank());
      statistics.fill(own, stream);
      cu::synchronize(stream);
      DdpOptions options;
      options.buffers.push_back({"running_mean", statistics.buffer()});
      options.buffer_sync = sync;
      Trainee trainee(group, stream, options);
      expect(statistics.all_equal(0, stream), "rank 0's at construction");
      statistics.fill(10 + own, stream);
      trainee.ddp.begin_forward(stream);
      const bool at_forward = sync == BufferSync::kEveryForward;
      expect(statistics.all_equal(at_forward ? 10 : 10 + own, stream), "begin_forward");
      statistics.fill(20 + own, stream);
      trainee.ddp.broadcast_buffers(stream);
      const bool is_sent = sync != BufferSync::kNever;
      expect(statistics.all_equal(is_sent ? 20 : 20 + own, stream), "broadcast_buffers");
    });
  }
}

TEST_CASE("a NaN on a device is an error that names step, parameter and rank", "[gpu][engine]") {
  run([](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream, {.non_finite = NonFinite::kStop, .scan_gradients = true});
    trainee.step(1);
    const std::string error = error_of([&] {
      const double factor = trainee.ddp.begin_step();
      for (const std::size_t i : {2, 1, 0}) {
        trainee.mark(i, is_last(group) && i == 1 ? kNan : factor);
      }
      trainee.ddp.wait(stream);
    });
    expect_part(error,
                "step 2: the reduced gradient of 'fc1.bias' is not finite; it came from rank " +
                    std::to_string(group.world_size() - 1) + " ('fc1.bias')");
  });
}

TEST_CASE("ranks with devices wait for on_rank0, and hear of its error", "[gpu][engine]") {
  run([](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream);
    trainee.step(1);
    const std::string key = group.fresh_name("on_rank0_ran");
    on_rank0(group, [&] {
      cu::synchronize(stream);
      group.store().set(key, "yes");
    });
    const std::string keys[] = {key};
    expect(group.store().check(keys), "it has run before anybody returns");
    trainee.step(2);
    expect(trainee.reduced(0) == 2, "the group still works");
    const std::string error =
        error_of([&] { on_rank0(group, [] { throw Error("no space left"); }); });
    expect_part(error, "no space left");
  });
}

TEST_CASE("the times of a step on a device are in their order", "[gpu][engine]") {
  run([](ProcessGroup& group, Stream stream) {
    Trainee silent(group, stream);
    silent.step(1);
    expect(!error_of([&] { (void)silent.ddp.times(); }).empty(), "not asked to record");
    // `begin` is by the host's clock, and the group has a device clock of its own.
    constexpr Timeout kClocksDiffer = 20ms;
    Trainee trainee(group, stream, {.record_times = true});
    for (int step = 0; step < 3; ++step) {
      trainee.step(1);
      const StepTimes times = trainee.ddp.times();
      expect(times.buckets.size() == trainee.ddp.layout().buckets.size(), "every bucket");
      Clock::time_point last = times.begin - kClocksDiffer;
      for (const StepTimes::Bucket& bucket : times.buckets) {
        expect(bucket.size_bytes > 0 && bucket.ready >= last, "buckets become ready in turn");
        last = bucket.ready;
        expect(bucket.reduction.has_value() == (group.world_size() > 1), "reduced with peers");
        if (!bucket.reduction) continue;
        expect(bucket.reduction->end >= bucket.reduction->begin, "which takes time");
        expect(bucket.reduction->end <= times.end + kClocksDiffer, "within the step");
      }
      expect(times.backward_end >= last && times.end >= times.backward_end, "the end");
    }
  });
}

TEST_CASE("a rank that is late on its device is named in the report", "[gpu][engine][multi_gpu]") {
  if (is_single()) return;
  run([](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream);
    for (int step = 0; step < 30; ++step) {
      const double factor = trainee.ddp.begin_step();
      if (is_last(group)) std::this_thread::sleep_for(40ms);  // as its backward
      for (const std::size_t i : {2, 1, 0}) trainee.mark(i, factor);
      trainee.ddp.wait(stream);
      cu::synchronize(stream);
    }
    const std::vector<Straggler> found = trainee.ddp.step_costs().stragglers;
    expect(found.size() == 1 && is_last(group) == (found[0].rank == group.rank()),
           "the last rank is named, alone");
    expect_part(trainee.ddp.report(), "rank " + std::to_string(found[0].rank));
  });
}
