// SPDX-License-Identifier: MIT
//
// The engine on CUDA. Run alone, the test has one rank per visible GPU (at most four, as threads);
// on a machine with one GPU this is a world of one, which communicates nothing. Under ddp-launch,
// the ranks are processes that share a GPU.
#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "nccl_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::Floats;
using test::run_nccl_ranks;

namespace {

constexpr std::size_t kElements = 10007;

// Two parameters and a buffer with their engine, on one rank.
struct Trainee {
  Trainee(ProcessGroup& group, Stream own_stream, DdpOptions options)
      : first(kElements, group.device()),
        second(kElements, group.device()),
        statistics(3, group.device()),
        stream(own_stream),
        ddp(group.shared_from_this(),
            {{"first", {kElements}, first.buffer()}, {"second", {kElements}, second.buffer()}},
            with_buffer(std::move(options))) {}

  // A pass in which every gradient is `value`, added to the gradients of earlier passes.
  void pass(double value, double samples = 1, bool is_active = true) {
    const bool is_first = ddp.is_synchronized();
    const double factor = ddp.begin_step({.samples = samples, .is_active = is_active});
    for (const std::size_t i : {1, 0}) {
      const Floats addend(kElements, ddp.group().device());
      cu::fill(addend.buffer(), factor * value, stream);
      if (is_first) cu::fill(ddp.gradient(i), 0, stream);
      cu::reduce(addend.buffer(), ddp.gradient(i), ReduceOp::kSum, stream);
      cu::synchronize(stream);
      ddp.mark_ready(i, stream);
    }
    ddp.wait(stream);
  }

  // The largest difference between any element of gradient i and `value`.
  float distance_to(std::size_t i, double value) {
    float largest = 0;
    std::vector<float> host(kElements);
    cu::copy_async(host.data(), ddp.gradient(i).data, kElements * sizeof(float), stream);
    cu::synchronize(stream);
    for (const float each : host) {
      const float distance = std::abs(each - static_cast<float>(value));
      if (std::isnan(distance)) return distance;
      largest = std::max(largest, distance);
    }
    return largest;
  }
  // Likewise, of both gradients.
  float distance_to(double value) {
    const float first_distance = distance_to(0, value);
    return std::isnan(first_distance) ? first_distance
                                      : std::max(distance_to(1, value), first_distance);
  }

  DdpOptions with_buffer(DdpOptions options) {
    options.buffers = {{"statistics", statistics.buffer()}};
    return options;
  }

  Floats first;
  Floats second;
  Floats statistics;
  Stream stream;
  DistributedDataParallel ddp;
};

// A step of a trainer with several streams, in which the host does not wait until the optimizer is
// done. Each gradient comes from a stream of its own, and the optimizer uses another one. Each
// stream is busy for a while before the work for which others should wait.
class SeveralStreams {
 public:
  SeveralStreams(DistributedDataParallel& ddp, int rank)
      : device_(ddp.group().device()),
        // Rank 0 has one optimizer stream, while the others alternate between two. So replicas
        // differ if a fingerprint is taken too late.
        optimizer_count_(rank == 0 ? 1 : 2),
        rank_(rank),
        stepped_(device_),
        loss_(1, device_),
        delay_(kDelayElements, device_),
        host_delay_(cu::allocate_pinned(kDelayElements * sizeof(float))) {
    for (cu::OwnedStream& each : producers_) each = cu::OwnedStream(device_);
    for (cu::OwnedStream& each : optimizers_) each = cu::OwnedStream(device_);
  }

  static double samples(int rank) { return rank + 1; }
  static double value(int rank, int step, std::size_t i) {
    return (rank + 1) * (step + 1) + static_cast<double>(i);
  }
  [[nodiscard]] Stream last_optimizer() const { return last_; }

  // Adds the mean of value() to each parameter. value() of the second parameter is the metric, too.
  void train(Trainee& trainee, int step) {
    DistributedDataParallel& ddp = trainee.ddp;
    stepped_.record(last_);
    keep_busy(last_);
    const double factor = ddp.begin_step({.samples = samples(rank_)});
    ddp.record_metric(0, loss_.buffer(), samples(rank_));
    for (const std::size_t i : {1, 0}) {
      const Stream producer = producers_[i].view();
      stepped_.make_wait(producer);
      keep_busy(producer);
      if (i == 1) loss_.fill(value(rank_, step, i), producer);
      cu::fill(ddp.gradient(i), factor * value(rank_, step, i), producer);
      ddp.mark_ready(i, producer);
    }
    const Stream optimizer = optimizers_[static_cast<std::size_t>(step % optimizer_count_)].view();
    stepped_.make_wait(optimizer);
    ddp.wait(optimizer);
    for (std::size_t i = 0; i < 2; ++i) {
      if (ddp.gradient_scale() != nullptr) {
        cu::scale_by_value_at(ddp.gradient(i), ddp.gradient_scale(), optimizer);
      }
      const Floats& parameter = i == 0 ? trainee.first : trainee.second;
      cu::reduce(ddp.gradient(i), parameter.buffer(), ReduceOp::kSum, optimizer);
    }
    cu::synchronize(optimizer);
    last_ = optimizer;
  }

 private:
  static constexpr std::size_t kDelayElements = std::size_t{1} << 20;

  void keep_busy(Stream stream) {
    cu::copy_async(delay_.buffer().data, host_delay_.data(), kDelayElements * sizeof(float),
                   stream);
  }

  Device device_;
  int optimizer_count_;
  int rank_;
  std::array<cu::OwnedStream, 2> producers_;
  std::array<cu::OwnedStream, 2> optimizers_;
  cu::Event stepped_;  // recorded by the optimizer
  Stream last_;
  Floats loss_;
  Floats delay_;
  Allocation host_delay_;
};

void run(const DdpOptions& options, const std::function<void(Trainee&, int, int)>& body) {
  run_nccl_ranks(30s, [&](ProcessGroup& group, Stream stream) {
    Trainee trainee(group, stream, options);
    body(trainee, group.rank(), group.world_size());
  });
}

}  // namespace

TEST_CASE("gradients on the device become their mean, whatever checks are on", "[gpu][engine]") {
  std::vector<DdpOptions> all(8);
  all[1].unused = UnusedParameters::kZero;
  all[2].unused = UnusedParameters::kStatic;
  all[3].hook = compress_to_bfloat16;
  all[4].hook = compress_to_float16;
  all[5].non_finite = NonFinite::kStop;
  all[5].scan_gradients = true;
  all[6].fingerprint_every = 1;
  all[6].buffer_sync = BufferSync::kEveryForward;
  all[7].record_times = true;
  all[7].scale_at_ready = true;
  for (const DdpOptions& options : all) {
    run(options, [](Trainee& trainee, int rank, int world) {
      for (int step = 0; step < 6; ++step) {
        trainee.ddp.begin_forward(trainee.stream);
        trainee.pass(rank + 1);
        expect(trainee.distance_to((world + 1) / 2.0) < 0.02F, "the mean");
        expect(trainee.ddp.should_step() && trainee.ddp.is_used(0), "a step of all parameters");
        expect(trainee.ddp.summary().samples == world, "the samples of all ranks");
      }
    });
  }
}

TEST_CASE("bandwidth and overlap of reductions on the device are known", "[gpu][engine]") {
  DdpOptions options;
  options.record_times = true;
  run(options, [](Trainee& trainee, int, int world) {
    for (int step = 0; step < 30; ++step) trainee.pass(1);
    const StepCosts costs = trainee.ddp.step_costs();
    expect(costs.bus_bandwidth.has_value() == (world > 1), "a bandwidth if there are peers");
    expect(costs.overlap.has_value() == (world > 1), "likewise");
    expect(costs.bus_bandwidth.value_or(1) > 0, "of some bytes per second");
  });
}

TEST_CASE("a trainer's flat gradients on the device are the buckets", "[gpu][engine]") {
  run_nccl_ranks(30s, [](ProcessGroup& group, Stream stream) {
    const Floats flat(2 * kElements, group.device());  // the second half is not aligned
    Trainee trainee(group, stream, {.flat_gradients = flat.buffer()});
    expect(trainee.ddp.gradient(0).data == flat.buffer().data, "no memory of the engine's");
    for (int step = 0; step < 3; ++step) {
      trainee.pass(group.rank() + 1);
      expect(trainee.distance_to((group.world_size() + 1) / 2.0) < 1e-5F, "the mean");
    }
    expect(trainee.ddp.statistics().gradient_copies == 0, "no copies");
  });
}

TEST_CASE("passes on the device add up, ranks run out, and votes are counted", "[gpu][engine]") {
  run({}, [](Trainee& trainee, int rank, int world) {
    DistributedDataParallel& ddp = trainee.ddp;
    ddp.accumulate(2);
    trainee.pass(2, 1);
    trainee.pass(5, 2);
    expect(trainee.distance_to(4) < 1e-5F, "(2 * 1 + 5 * 2) / 3");
    trainee.pass(rank == 0 ? 3 : std::numeric_limits<double>::quiet_NaN(), rank == 0 ? 1 : 0,
                 rank == 0);
    expect(trainee.distance_to(3) < 1e-5F, "rank 0 alone had samples");
    expect(ddp.summary().active_ranks == 1 && !ddp.is_over(), "one rank has data");
    trainee.pass(0, 0, false);
    expect(ddp.is_over() && !ddp.should_step(), "none has");
    (void)ddp.begin_step({.asks_to_stop = rank == world - 1});
    ddp.vote(3, rank == 0);
    for (const std::size_t i : {1, 0}) ddp.mark_ready(i, trainee.stream);
    ddp.wait(trainee.stream);
    expect(ddp.stop_requested() && ddp.agreed(3, Quorum::kAny), "asked for by one rank");
    expect(ddp.agreed(3, Quorum::kAll) == (world == 1), "not by all");
  });
}

namespace {

// A backward pass on one stream, and a wait on another, which is busy for a while before.
struct TwoStreams {
  explicit TwoStreams(DistributedDataParallel& engine) : ddp(engine) { cu::synchronize({}); }

  void add(std::size_t i, double value) const {
    cu::fill(addend.buffer(), value, backward.view());
    cu::reduce(addend.buffer(), ddp.gradient(i), ReduceOp::kSum, backward.view());
    ddp.mark_ready(i, backward.view());
  }
  void wait_late() const {
    for (int i = 0; i < 8; ++i) cu::fill(delay.buffer(), i, waiter.view());
    ddp.wait(waiter.view());
  }

  DistributedDataParallel& ddp;
  Device device = ddp.group().device();
  cu::OwnedStream backward{device};
  cu::OwnedStream waiter{device};
  Floats addend{kElements, device};
  Floats delay{std::size_t{1} << 24, device};
};

}  // namespace

TEST_CASE("passes add up whose backward runs on another stream than wait()", "[gpu][engine]") {
  DdpOptions options;
  options.unused = UnusedParameters::kZero;
  run(options, [](Trainee& trainee, int, int world) {
    DistributedDataParallel& ddp = trainee.ddp;
    const TwoStreams streams(ddp);
    for (int step = 0; step < 2; ++step) {
      cu::fill(ddp.gradient(0), 0, streams.backward.view());
      ddp.accumulate(2);
      streams.add(0, 2 * ddp.begin_step({.samples = 1}));
      streams.wait_late();  // zeroes gradient 1
      const double factor = ddp.begin_step({.samples = 3});
      streams.add(1, 6 * factor);
      streams.add(0, 6 * factor);
      streams.wait_late();
      trainee.stream = streams.waiter.view();
      expect(ddp.summary().samples == 4 * world, "the samples of both passes");
      expect(trainee.distance_to(0, 5) < 1e-5F, "(2 * 1 + 6 * 3) / 4");
      expect(trainee.distance_to(1, 4.5F) < 1e-5F, "(0 * 1 + 6 * 3) / 4");
      streams.backward.synchronize();
    }
  });
}

TEST_CASE("a pass that marks nothing is over before the next one, on whatever stream",
          "[gpu][engine]") {
  run({}, [](Trainee& trainee, int, int world) {
    DistributedDataParallel& ddp = trainee.ddp;
    const TwoStreams streams(ddp);
    for (int step = 0; step < 2; ++step) {
      ddp.accumulate(2);
      (void)ddp.begin_step({.samples = 0});
      streams.wait_late();  // zeroes the gradients
      const double factor = ddp.begin_step({.samples = 3});
      streams.add(1, 6 * factor);
      streams.add(0, 6 * factor);
      streams.wait_late();
      trainee.stream = streams.waiter.view();
      expect(ddp.summary().samples == 3 * world, "the samples of the second pass");
      expect(trainee.distance_to(6) < 1e-5F, "the gradients of the second pass");
      streams.backward.synchronize();
    }
  });
}

TEST_CASE("a NaN gradient on the device skips the step on all ranks", "[gpu][engine]") {
  DdpOptions options;
  options.non_finite = NonFinite::kSkip;
  run(options, [](Trainee& trainee, int rank, int world) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const bool is_bad : {false, true, true, false}) {
      trainee.pass(is_bad && rank == world - 1 ? nan : 1);
      expect(trainee.ddp.should_step() == !is_bad, "skipped where bad");
    }
  });
}

TEST_CASE("the streams of a trainer stay ordered", "[gpu][engine]") {
  std::vector<DdpOptions> all(6);
  all[0].fold_scale = true;
  all[1].buckets.min_buckets = 1;  // both gradients in one bucket
  all[2].unused = UnusedParameters::kZero;
  all[3].scale_at_ready = true;
  all[4].record_times = true;
  for (DdpOptions& options : all) options.fingerprint_every = 1;
  all[5].fingerprint_every = 0;  // the host need not wait in each step
  for (const DdpOptions& options : all) {
    run(options, [](Trainee& trainee, int rank, int world) {
      SeveralStreams streams(trainee.ddp, rank);
      constexpr int kSteps = 4;
      for (int step = 0; step < kSteps; ++step) streams.train(trainee, step);
      double samples = 0;
      std::array<double, 2> sums = {};
      for (int r = 0; r < world; ++r) {
        samples += SeveralStreams::samples(r);
        for (std::size_t i = 0; i < 2; ++i) {
          for (int step = 0; step < kSteps; ++step) {
            sums[i] += SeveralStreams::samples(r) * SeveralStreams::value(r, step, i);
          }
        }
      }
      const StepSummary totals = trainee.ddp.take_totals();
      expect(totals.samples == kSteps * samples, "the samples of all steps");
      expect(std::abs(totals.metrics[0].sum - sums[1]) < 1e-5 * sums[1], "the metric of all steps");
      for (std::size_t i = 0; i < 2; ++i) {
        const double trained = sums[i] / samples;
        const Floats& parameter = i == 0 ? trainee.first : trainee.second;
        for (const float each : parameter.read(streams.last_optimizer())) {
          expect(std::abs(each - trained) < 1e-5 * trained, "the parameter after all steps");
        }
      }
    });
  }
}

TEST_CASE("replicas on devices that diverge are found", "[gpu][engine][multi_gpu]") {
  if (test::nccl_world_size() < 2) {
    WARN("SKIPPED: there is one GPU");
    return;
  }
  DdpOptions options;
  options.fingerprint_every = 2;
  run(options, [](Trainee& trainee, int rank, int) {
    const std::string error = error_of([&] {
      for (int step = 0; step < 12; ++step) {
        if (step == 3 && rank == 1) trainee.second.fill(1, trainee.stream);
        trainee.pass(1);
      }
    });
    // Steps 4 and 5 are compared, too, and the later one has begun when the earlier one has
    // arrived.
    expect(error.find("step 4: parameter 'second' of rank 1") != std::string::npos, error);
  });
}

// As cudaMalloc gives it to a thread that has not called cudaSetDevice.
TEST_CASE("memory of another GPU is refused by its name", "[gpu][engine][multi_gpu]") {
  if (cu::device_count() < 2) {
    WARN("SKIPPED: there is one GPU");
    return;
  }
  run_nccl_ranks(60s, [](ProcessGroup& group, Stream) {
    const Floats elsewhere(8, cuda_device((group.device().index + 1) % cu::device_count()));
    Buffer value = elsewhere.buffer();
    value.device = group.device();
    const std::string error = error_of([&] {
      DistributedDataParallel(group.shared_from_this(), {{"weight", {8}, value}});
    });
    expect(error.find("the value of 'weight' is said to be on " + to_string(group.device())) !=
               std::string::npos,
           error);
  });
}
