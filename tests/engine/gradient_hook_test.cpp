// SPDX-License-Identifier: MIT
//
// Gradient hooks, and models whose gradients have several dtypes.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/half.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/differences.h"
#include "support/engine.h"
#include "support/gate.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::mark_all;
using test::Model;
using test::run_groups;
using test::run_on_all_backends;

namespace {

constexpr std::size_t kElements = 131;

// Two parameters of each floating-point type, alternating.
struct MixedModel {
  explicit MixedModel(std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) {
      memory.emplace_back(kElements);
      const Buffer value{memory.back().data(), kElements, dtype, kCpuDevice};
      parameters.push_back({"p" + std::to_string(parameters.size()), {kElements}, value});
    }
  }
  std::vector<std::vector<double>> memory;
  std::vector<Parameter> parameters;
};

double element(const Buffer& buffer, std::size_t i) { return item(buffer.slice(i, 1)); }

// Runs a step in which rank r's gradients are r + 1 everywhere. Returns the largest error of the
// mean.
double error_of_step(DistributedDataParallel& ddp, const ProcessGroup& group, double value = 1) {
  const double factor = ddp.begin_step();
  for (std::size_t i = ddp.parameter_count(); i-- > 0;) {
    fill(ddp.gradient(i), factor * value * (group.rank() + 1));
    ddp.mark_ready(i);
  }
  ddp.wait();
  const double mean = value * (group.world_size() + 1) / 2;
  double worst = 0;
  for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
    for (const std::size_t at : {std::size_t{0}, kElements - 1}) {
      worst = test::larger(worst, std::abs(element(ddp.gradient(i), at) - mean) / mean);
    }
  }
  return worst;
}

// A hook that doubles what it reduces, and counts its calls.
class DoublingHook final : public GradientHook {
 public:
  DoublingHook(ProcessGroup& group, int& finished) : group_(group), finished_(finished) {}
  std::string name() const override { return "doubling"; }
  Work launch(const GradientBucket& bucket, Stream producer) override {
    return work_ = group_.all_reduce(bucket.gradients, ReduceOp::kSum, producer);
  }
  void finish(const GradientBucket& bucket, Stream consumer) override {
    work_.wait(consumer);
    scale(bucket.gradients, 2, consumer);
    ++finished_;
  }

 private:
  ProcessGroup& group_;
  int& finished_;
  Work work_;
};

// A hook whose first launch takes until another thread has called the engine, too.
class SlowHook final : public GradientHook {
 public:
  SlowHook(ProcessGroup& group, test::Gate& begun, test::Gate& may_end)
      : group_(group), begun_(begun), may_end_(may_end) {}
  std::string name() const override { return "slow"; }
  Work launch(const GradientBucket& bucket, Stream producer) override {
    begun_.raise();
    static_cast<void>(may_end_.wait_for(1));
    return work_ = group_.all_reduce(bucket.gradients, ReduceOp::kSum, producer);
  }
  void finish(const GradientBucket&, Stream consumer) override { work_.wait(consumer); }

 private:
  ProcessGroup& group_;
  test::Gate& begun_;
  test::Gate& may_end_;
  Work work_;
};

// A hook that reduces in a group of its own or of the program's.
class OtherGroupHook final : public GradientHook {
 public:
  OtherGroupHook(
      std::shared_ptr<ProcessGroup> group, const BucketLayout& layout,
      std::function<void()> ends = [] {})
      : group_(std::move(group)), works_(layout.buckets.size()), ends_(std::move(ends)) {}
  ~OtherGroupHook() override { ends_(); }
  std::string name() const override { return "other group"; }
  Work launch(const GradientBucket& bucket, Stream producer) override {
    return works_[bucket.index] = group_->all_reduce(bucket.gradients, ReduceOp::kSum, producer);
  }
  void finish(const GradientBucket& bucket, Stream consumer) override {
    works_[bucket.index].wait(consumer);
  }

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::vector<Work> works_;
  std::function<void()> ends_;  // called before the group ends
};

}  // namespace

TEST_CASE("gradients of several types are reduced, in buckets of one type", "[engine][dtypes]") {
  const std::initializer_list<DType> dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat32,
                                               DType::kFloat16, DType::kFloat64,  DType::kBFloat16,
                                               DType::kFloat32};
  for (const int world_size : {1, 2, 3, 4}) {
    run_on_all_backends(world_size, [&](ProcessGroup& group) {
      MixedModel model(dtypes);
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                  {.buckets = {.min_buckets = 1}});
      for (int step = 0; step < 3; ++step) {
        expect(error_of_step(ddp, group) < 0.004, "the mean, rounded to 8 bits");
      }
      expect(ddp.layout().buckets.size() == 4, "a bucket for each type");
      for (const BucketSpec& bucket : ddp.layout().buckets) {
        for (const std::size_t i : bucket.parameters) {
          expect(model.parameters[i].value.dtype == bucket.dtype, "one type in a bucket");
        }
      }
    });
  }
}

TEST_CASE("gradients may travel as 16 bits", "[engine][hook]") {
  for (const auto& [make_hook, precision] :
       {std::pair(&compress_to_bfloat16, 0.008), std::pair(&compress_to_float16, 0.001)}) {
    for (const int world_size : {1, 2, 3, 4}) {
      run_on_all_backends(world_size, [&](ProcessGroup& group) {
        MixedModel model({DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat32});
        DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                    {.hook = make_hook});
        for (int step = 0; step < 3; ++step) {
          expect(error_of_step(ddp, group, 1.2345) < 0.01, "the mean, rounded");
        }
        // The sums here are exact in either type.
        expect(error_of_step(ddp, group, 2) < precision, "small integers");
      });
    }
  }
}

TEST_CASE("a compression hook sends its own type, and as many elements", "[engine][hook]") {
  using What = FlightRecorder::What;
  for (const auto& [make_hook, type] : {std::pair(&compress_to_bfloat16, DType::kBFloat16),
                                        std::pair(&compress_to_float16, DType::kFloat16)}) {
    run_on_all_backends(2, [&](ProcessGroup& group) {
      MixedModel model({DType::kFloat32, DType::kFloat64});
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                  {.buckets = {.min_buckets = 1}, .hook = make_hook});
      expect(error_of_step(ddp, group) < 0.01, "the mean");
      std::size_t sent = 0;
      for (const FlightRecorder::Event& event : group.recorder().events()) {
        if (event.what != What::kSubmitted || event.step != 1) continue;
        if (event.signature.dtype == type && event.signature.count == kElements) ++sent;
      }
      expect(sent == 2, std::to_string(sent) + " of 2 buckets travelled in 16 bits");
    });
  }
}

TEST_CASE("sums of float16 do not overflow before the gradients do", "[engine][hook]") {
  run_on_all_backends(4, [&](ProcessGroup& group) {
    MixedModel model({DType::kFloat32});
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.hook = compress_to_float16});
    expect(error_of_step(ddp, group, 15000) < 0.001, "sums of 150000 exceed float16");
  });
}

TEST_CASE("compression reduces a copy, and does not change 16-bit gradients", "[engine][hook]") {
  run_on_all_backends(2, [&](ProcessGroup& group) {
    MixedModel model({DType::kFloat32, DType::kBFloat16});
    class Probe final : public GradientHook {
     public:
      explicit Probe(std::unique_ptr<GradientHook> inner) : inner_(std::move(inner)) {}
      std::string name() const override { return inner_->name(); }
      Work launch(const GradientBucket& bucket, Stream producer) override {
        const Buffer& gradients = bucket.gradients;
        const double before = element(gradients, 0);
        const Work work = inner_->launch(bucket, producer);
        work.wait_host();
        const bool untouched = element(gradients, 0) == before;  // reduced in other memory
        expect(untouched == (gradients.dtype == DType::kFloat32), "float32 travels in a copy");
        return work;
      }
      void finish(const GradientBucket& bucket, Stream consumer) override {
        inner_->finish(bucket, consumer);
      }

     private:
      std::unique_ptr<GradientHook> inner_;
    };
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.hook = [](ProcessGroup& g, const BucketLayout& layout) {
                                  return std::make_unique<Probe>(compress_to_bfloat16(g, layout));
                                }});
    expect(error_of_step(ddp, group) < 0.01, "the mean");
  });
}

TEST_CASE("a custom hook replaces the sum", "[engine][hook]") {
  run_on_all_backends(3, [&](ProcessGroup& group) {
    MixedModel model({DType::kFloat64, DType::kFloat64});
    int finished = 0;
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.buckets = {.bucket_bytes_cap = 8, .min_buckets = 2},
                                 .hook = [&](ProcessGroup& g, const BucketLayout&) {
                                   return std::make_unique<DoublingHook>(g, finished);
                                 }});
    expect(std::abs(error_of_step(ddp, group) - 1) < 1e-12, "twice the mean");
    expect(finished == 2, "both buckets");
  });
}

TEST_CASE("a hook may send nothing", "[engine][hook]") {
  class SilentHook final : public GradientHook {
    std::string name() const override { return "silent"; }
    Work launch(const GradientBucket&, Stream) override { return {}; }
    void finish(const GradientBucket&, Stream) override {}
  };
  run_on_all_backends(2, [](ProcessGroup& group) {
    MixedModel model({DType::kFloat64});
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.hook = [](ProcessGroup&, const BucketLayout&) {
                                  return std::make_unique<SilentHook>();
                                }});
    (void)error_of_step(ddp, group);
    ddp.wait_host();
    const double own = (group.rank() + 1) / 2.0;  // divided by the samples of all ranks
    expect(element(ddp.gradient(0), 0) == own, "this rank's own gradient");
  });
}

TEST_CASE("different hooks of ranks are an error at construction", "[engine][hook]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  std::vector<std::string> errors(2);
  run_groups(backend, 2, [&](ProcessGroup& group) {
    MixedModel model({DType::kFloat32});
    DdpOptions options;
    if (group.rank() == 1) options.hook = compress_to_bfloat16;
    errors[static_cast<std::size_t>(group.rank())] = error_of(
        [&] { DistributedDataParallel ddp(group.shared_from_this(), model.parameters, options); });
  });
  for (const std::string& error : errors) {
    CHECK(error == "[ddp] models differ in hook: rank 0 has none, rank 1 has compress_to_bfloat16");
  }
}

TEST_CASE("an engine that an exception destroys releases its gradients from a hook's group",
          "[engine][hook]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    const auto others = group.duplicate();
    Model model(group.rank());
    std::vector<double> gradients(309);
    const auto run_step = [&] {
      const auto make_hook = [&](ProcessGroup&, const BucketLayout& layout) {
        return std::make_unique<OtherGroupHook>(others, layout);
      };
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                  {.flat_gradients = buffer_of(gradients), .hook = make_hook});
      (void)ddp.begin_step();
      if (group.rank() == 1) (void)group.store().get("gone");  // rank 0's engine
      mark_all(ddp);
      if (group.rank() == 0) throw std::runtime_error("an error of the program");
      ddp.wait();
    };
    const std::string error = error_of(run_step);
    if (group.rank() == 0) {
      std::ranges::fill(gradients, -7);
      group.store().set("gone", "");
    }
    (void)error_of([&] { others->barrier().wait(); });  // is behind the reductions
    if (group.rank() == 0) {
      expect(std::ranges::count(gradients, -7) == 309, "the memory is the caller's again");
    } else {
      expect(error.find("an exception left") != std::string::npos, error);
    }
  });
}

TEST_CASE("a hook's own group ends before the buckets in which it reduces", "[engine][hook]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    std::vector<double> values(100000);  // too many to travel without shared memory
    const std::vector<Parameter> parameters = {{"w", {100000}, buffer_of(values)}};
    const auto run_step = [&] {
      const auto make_hook = [&](ProcessGroup& g, const BucketLayout& layout) {
        const auto end = [&g] { g.store().set("gone " + std::to_string(g.rank()), ""); };
        return std::make_unique<OtherGroupHook>(g.duplicate(), layout, end);
      };
      DistributedDataParallel ddp(group.shared_from_this(), parameters, {.hook = make_hook});
      (void)ddp.begin_step();
      if (group.rank() == 1) (void)group.store().get("gone 0");
      ddp.mark_ready(0);
      if (group.rank() == 0) throw std::runtime_error("an error of the program");
      ddp.wait();
    };
    expect(!error_of(run_step).empty(), "both ranks fail");
  });
}

TEST_CASE("two threads in one engine are an error of the second", "[engine][threads]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    test::Gate begun, may_end;
    MixedModel model({DType::kFloat32, DType::kFloat64});
    const auto slow = [&](ProcessGroup& g, const BucketLayout&) {
      return std::make_unique<SlowHook>(g, begun, may_end);
    };
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters, {.hook = slow});
    for (std::size_t i = 0; i < 2; ++i) fill(ddp.gradient(i), 1);
    (void)ddp.begin_step();
    auto marking = std::async(std::launch::async, [&] { ddp.mark_ready(1); });
    expect(begun.wait_for(1), "a launch");
    for (const std::string& error :
         {error_of([&] { ddp.mark_ready(0); }), error_of([&] { ddp.wait(); })}) {
      expect(error.find("while a call of one of them was running") != std::string::npos, error);
    }
    may_end.raise();
    marking.get();
    ddp.mark_ready(0);
    ddp.wait();
    for (std::size_t i = 0; i < 2; ++i) expect(element(ddp.gradient(i), 0) == 1, "the mean");
  });
}
