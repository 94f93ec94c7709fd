// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::mark_all;
using test::Model;
using test::run_groups;

namespace {

// Many parameters, whose values are all in one array, as in trainers without a tensor library.
class FlatModel {
 public:
  FlatModel() {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < kParameters; ++i) {
      const std::size_t count = 1 + 37 * i % 400;
      parameters_.push_back({"p" + std::to_string(i),
                             {static_cast<std::int64_t>(count)},
                             buffer_of(values_).slice(begin, count)});
      begins_.push_back(begin);
      begin += count;
    }
    size_ = begin;
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t begin(std::size_t i) const { return begins_[i]; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  static constexpr std::size_t kParameters = 40;

  std::vector<double> values_ = std::vector<double>(kParameters * 400);
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> begins_;
  std::size_t size_ = 0;
};

// A pass whose gradients differ from element to element, from rank to rank and from step to step.
void run_step(DistributedDataParallel& ddp, int step) {
  const int rank = ddp.group().rank();
  const double n = 1 + (rank + step) % 3;
  const double factor = ddp.begin_step({.samples = n});
  for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
    double value = 1.0 / (1 + rank + step);
    for (double& element : ddp.gradient(i).as<double>()) element = factor * (value += 0.37);
  }
  mark_all(ddp);
  ddp.wait();
}

// The gradients of `steps` steps, concatenated.
std::vector<double> gradients_of(DistributedDataParallel& ddp, int steps) {
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) {
    run_step(ddp, step);
    for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
      const auto gradient = ddp.gradient(i).as<double>();
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
  }
  return all;
}

}  // namespace

TEST_CASE("dense gradients lie in the order of registration, without gaps", "[engine][layout]") {
  std::vector<GradientSpec> gradients;
  for (const std::size_t count : {1000, 10, 3, 1000, 7, 10}) {
    gradients.push_back({count, DType::kFloat32});
  }
  const BucketOptions options{.bucket_bytes_cap = 4000, .first_bucket_bytes_cap = 40};
  const BucketLayout layout = lay_out_buckets(gradients, options, 0, Packing::kDense);
  CHECK(layout.buckets.size() >= 3);
  CHECK(layout.size_bytes == 2030 * sizeof(float));
  CHECK(layout.slots[5].bucket == 0);
  std::size_t end = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const BucketSpec& bucket = layout.buckets[layout.slots[i].bucket];
    CHECK(bucket.offset_bytes / sizeof(float) + layout.slots[i].offset == end);
    end += gradients[i].count;
  }
  std::size_t elements = 0;
  for (const BucketSpec& bucket : layout.buckets) elements += bucket.count;
  CHECK(elements == 2030);
}

TEST_CASE("dense gradients that cannot form contiguous buckets are refused", "[engine][layout]") {
  const std::vector<GradientSpec> gradients(4, {10, DType::kFloat32});
  const auto lay_out = [&](std::vector<std::size_t> order, std::size_t tail = 0) {
    const BucketOptions options{.min_buckets = 2, .order = std::move(order)};
    (void)lay_out_buckets(gradients, options, tail, Packing::kDense);
  };
  CHECK_NOTHROW(lay_out({1, 0, 2, 3}));
  CHECK_THAT(error_of([&] {
               lay_out({0, 2, 1, 3});
             }),
             Catch::Contains("gradients do not lie behind each other"));
  CHECK_THAT(error_of([&] { lay_out({}, 4); }), Catch::Contains("UnusedParameters::kError"));
  const GradientSpec mixed[] = {{8, DType::kFloat32}, {8, DType::kBFloat16}};
  CHECK_THROWS_AS(lay_out_buckets(mixed, {}, 0, Packing::kDense), std::invalid_argument);
}

TEST_CASE("the caller's flat gradients serve as buckets and give the same bits", "[engine]") {
  std::vector<std::pair<Backend, int>> worlds = {{Backend::kShm, 1}, {Backend::kShm, 3}};
  // Other backends, with three ranks, sum in an order that depends on an element's position.
  for (const Backend backend : test::backends()) worlds.emplace_back(backend, 2);
  for (const auto& [backend, world_size] : worlds) {
    run_groups(backend, world_size, [](ProcessGroup& group) {
      const auto shared = group.shared_from_this();
      FlatModel model;
      const Allocation memory = group.allocate(model.size() * sizeof(double));
      const Buffer flat{memory.data(), model.size(), DType::kFloat64, group.device()};
      DistributedDataParallel own(shared, model.parameters());
      DistributedDataParallel ddp(shared, model.parameters(), {.flat_gradients = flat});
      expect(ddp.layout().buckets.size() > 3, "several buckets");
      for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
        expect(ddp.gradient(i).data == flat.slice(model.begin(i), 1).data, "its place");
      }
      expect(gradients_of(ddp, 5) == gradients_of(own, 5), "equal gradients");
      expect(ddp.statistics().gradient_copies == 0, "no copies");
    });
  }
}

TEST_CASE("an engine that an exception destroys in a step leaves the caller's memory alone",
          "[engine]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    Model model(0);
    std::vector<double> flat(309, 1);
    {
      DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                  {.flat_gradients = buffer_of(flat)});
      (void)ddp.begin_step();
      if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      test::mark_all(ddp);
    }
    std::ranges::fill(flat, -1);
    group.barrier().wait();
    const auto written = std::ranges::count_if(flat, [](double x) { return x != -1; });
    expect(written == 0, std::to_string(written) + " elements were written");
  });
}

TEST_CASE("flat gradients that do not fit are refused", "[engine]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto shared = group.shared_from_this();
    Model model(0);
    std::vector<double> flat(310);
    const auto construct = [&](DdpOptions options) {
      return error_of([&] { DistributedDataParallel ddp(shared, model.parameters, options); });
    };
    const std::string short_by_one = construct({.flat_gradients = buffer_of(flat).slice(0, 308)});
    expect(short_by_one ==
               "[ddp] flat_gradients is float64[308] on cpu, but the parameters have 309 elements "
               "of float64 on cpu",
           short_by_one);
    const Buffer whole = buffer_of(flat).slice(0, 309);
    const std::string unused =
        construct({.unused = UnusedParameters::kZero, .flat_gradients = whole});
    expect(unused.find("UnusedParameters::kError") != std::string::npos, unused);
    const std::string mixed = construct({.flat_gradients = group.rank() == 0 ? Buffer() : whole});
    expect(mixed == "[ddp] models differ in flat_gradients: rank 0 has no, rank 1 has yes", mixed);
    model.parameters[0].grad = whole.slice(0, 300);
    const std::string both = construct({.flat_gradients = whole});
    expect(both ==
               "[ddp] parameter 'fc1.weight' has a gradient of its own, although flat_gradients is "
               "given",
           both);
  });
}
