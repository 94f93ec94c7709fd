// SPDX-License-Identifier: MIT
//
// Samples that a DataLoader cannot read, what it refuses, and the epochs of which it warns.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/data/data_loader.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/becomes_true.h"
#include "support/data_loading.h"
#include "support/gate.h"
#include "support/groups.h"
#include "support/images.h"
#include "support/run_ranks.h"
#include "support/stderr_capture.h"

namespace {

using Catch::Matchers::Contains;
using ddp::DataLoader;
using ddp::EpochPlan;
using ddp::ExactSampler;
using ddp::test::deliver;
using ddp::test::error_of;
using ddp::test::Gate;
using ddp::test::HookedDataset;
using ddp::test::in_order;
using ddp::test::numbered_images;

// Four samples of any shapes, which cannot be read.
class ShapesOnly final : public ddp::Dataset {
 public:
  using Shape = std::vector<std::int64_t>;

  ShapesOnly(Shape input, Shape label) : input_(std::move(input)), label_(std::move(label)) {}

  [[nodiscard]] std::int64_t size() const override { return 4; }
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override { return input_; }
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override { return label_; }
  [[nodiscard]] ddp::DType label_dtype(ddp::DType) const override { return ddp::DType::kInt64; }
  void read(std::int64_t, std::int64_t, const ddp::Buffer&, const ddp::Buffer&) const override {}

 private:
  Shape input_;
  Shape label_;
};

}  // namespace

TEST_CASE("a dataset's error arrives with its batch and names the sample", "[data][loader]") {
  std::atomic<std::int64_t> damaged{13};
  const HookedDataset dataset(40, [&](std::int64_t index) {
    if (index == damaged) throw std::runtime_error("the file is damaged");
  });
  const std::string expected =
      "[dataset] cannot read sample 13 of 40 in epoch 0: the file is damaged";
  for (const int num_workers : {0, 1, 2, 4}) {
    CAPTURE(num_workers);
    damaged = 13;  // in batch 3
    DataLoader loader(dataset, {.num_workers = num_workers});
    loader.start(in_order(40));
    REQUIRE(deliver(loader, 3).size() == 3);
    CHECK(error_of([&] { (void)loader.next(); }) == expected);
    CHECK(error_of([&] { (void)loader.next(); }) == expected);
    CHECK(loader.statistics().batches == 3);
    loader.start(in_order(0));  // workers no longer gather
    damaged = -1;
    loader.start(in_order(40));
    CHECK(deliver(loader).size() == 10);
  }
}

TEST_CASE("a sample that one rank cannot read ends the job on all ranks with the same error",
          "[data][loader]") {
  const HookedDataset dataset(12, [](std::int64_t index) {
    if (index == 5) throw std::runtime_error("the file is damaged");
  });
  for (const ddp::Backend backend : ddp::test::backends()) {
    CAPTURE(to_string(backend));
    ddp::test::run_groups(backend, 2, [&](ddp::ProcessGroup& group) {
      DataLoader loader(dataset, {.num_workers = 2});
      loader.start(ExactSampler({.dataset_size = 12,
                                 .world_size = 2,
                                 .rank = group.rank(),
                                 .global_batch_size = 4,
                                 .shuffle = false})
                       .plan({}));
      const std::string error = error_of([&] {
        try {
          while (loader.next()) group.barrier().wait();
        } catch (const std::exception& caught) {
          group.abort(ddp::describe(caught));
          throw;
        }
      });
      ddp::test::expect(error.find("cannot read sample 5 of 12 in epoch 0: the file is damaged") !=
                            std::string::npos,
                        "rank " + std::to_string(group.rank()) + " said: " + error);
    });
  }
}

TEST_CASE("while a loader that has failed waits for a slow read, it tells the error",
          "[data][loader]") {
  const ddp::test::StderrCapture log;
  const auto has_told = [&] { return log.text().find("is damaged") != std::string::npos; };
  Gate inside;
  std::atomic<bool> told{false};
  const HookedDataset dataset(8, [&](std::int64_t index) {
    if (index == 0) throw std::runtime_error("a.png is damaged");
    inside.raise();
    told = ddp::test::becomes_true(has_told);
  });
  {
    DataLoader loader(dataset, {.num_workers = 2});
    loader.start(in_order(8));
    CHECK_THAT(error_of([&] { (void)loader.next(); }), Contains("a.png is damaged"));
    REQUIRE(inside.wait_for(1));
  }
  CHECK(told);
  CHECK_THAT(log.text(),
             Contains("[data_loader] the end of the loader waits for a worker that is still inside "
                      "Dataset::read(); next() has thrown: [dataset] cannot read sample 0 of 8 in "
                      "epoch 0: a.png is damaged"));
  CHECK(std::ranges::count(log.text(), '\n') == 1);
}

TEST_CASE("a loader with bad options or without start() is an error", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(4);
  DataLoader loader(dataset, {.num_workers = 1});
  CHECK_THROWS_AS(loader.next(), std::logic_error);
  CHECK_THROWS_AS(loader.plan(), std::logic_error);
  CHECK_THAT(error_of([&] { const DataLoader bad(dataset, {.num_workers = -1}); }),
             Contains("num_workers is -1 and prefetch 0; neither may be below 0"));
  CHECK_THROWS_AS(DataLoader(dataset, {.prefetch = -2}), std::invalid_argument);
}

TEST_CASE("what a dataset throws that is no std::exception is named", "[data][loader]") {
  const auto error = [](const HookedDataset::Hook& hook) {
    const HookedDataset dataset(4, hook);
    DataLoader loader(dataset, {});
    loader.start(in_order(4));
    return error_of([&] { (void)loader.next(); });
  };
  const std::string sample = "[dataset] cannot read sample 0 of 4 in epoch 0, where read() threw ";
  CHECK_THAT(error([](std::int64_t) { throw std::string("no a.png"); }),
             Catch::StartsWith(sample + "a std::string, \"no a.png\""));
  CHECK_THAT(error([](std::int64_t) { throw "no b.png"; }),
             Catch::StartsWith(sample + "a const char*, \"no b.png\""));
  CHECK_THAT(error([](std::int64_t) { throw std::vector<int>(); }),
             Catch::StartsWith(sample + "an object of the type std::vector<int"));
}

TEST_CASE("a batch whose bytes cannot be counted is refused", "[data][loader]") {
  const auto error = [](const ShapesOnly& dataset) {
    return error_of([&] { DataLoader(dataset, {}).start(in_order(dataset.size())); });
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK(error({{kHuge}, {}}) ==
        "[dataset] no batch can have 4 samples of the shape [4611686018427387904] in float32");
  CHECK(error({{1}, {2, kHuge / 16}}) ==
        "[dataset] no batch can have 4 samples of the shape [2, 288230376151711744] in int64");
  const ShapesOnly dataset({kHuge}, {});
  const std::vector<std::int64_t> indices = {0, 1, 2, 3};  // 4 x 2^62 would be counted as 0
  std::vector<float> inputs;
  std::vector<std::int64_t> labels(4);
  CHECK_THAT(
      error_of([&] { dataset.gather(indices, ddp::buffer_of(inputs), ddp::buffer_of(labels)); }),
      Contains("no batch can have 4 samples of the shape [4611686018427387904]"));
}

// A loop without start() for its second epoch would train nothing, and say so nowhere.
TEST_CASE("a second next() after the end of an epoch is warned of, once", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(4);
  for (const int num_workers : {0, 2}) {
    CAPTURE(num_workers);
    DataLoader loader(dataset, {.num_workers = num_workers});
    const ddp::test::StderrCapture output;
    const auto lines = [&] { return std::ranges::count(output.text(), '\n'); };
    for (int epoch = 0; epoch < 2; ++epoch) {
      loader.start(in_order(4));
      while (loader.next()) {
      }
      CHECK(lines() == epoch);
      for (int call = 0; call < 3; ++call) CHECK_FALSE(loader.next());
      CHECK(lines() == 1);
      CHECK(loader.position().epoch == 1);
    }
    CHECK_THAT(output.text(), Contains("next() is called again after the end of the epoch"));
  }
}

// Training would end at once, with a loss of 0.
TEST_CASE("an epoch without batches is warned of, once and on rank 0", "[data][loader]") {
  const ddp::ImageDataset none = numbered_images(0);
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    const ddp::test::StderrCapture output;
    DataLoader loader(none, {});
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.start(EpochPlan({.epoch = epoch, .world_size = 2, .rank = rank}, {}));
      CHECK_FALSE(loader.next());
    }
    CHECK(std::ranges::count(output.text(), '\n') == (rank == 0 ? 1 : 0));
    if (rank != 0) continue;
    CHECK_THAT(output.text(),
               Contains("epoch 0 has no batches") && Contains("dataset's 0 samples"));
  }
}

TEST_CASE("a plan of which drop_last leaves nothing is warned of", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(3);
  DataLoader loader(dataset, {});
  const ddp::test::StderrCapture output;
  loader.start(EpochPlan({.count = 3, .global_batch_size = 4}, {0, 1, 2}).whole_batches());
  CHECK_THAT(output.text(), Contains("dataset's 3 samples"));
}
