// SPDX-License-Identifier: MIT
#include "ddp/data/data_loader.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "ddp/data/subset.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/allocation_counter.h"
#include "support/data_loading.h"
#include "support/gate.h"
#include "support/images.h"
#include "support/run_ranks.h"

namespace {

using ddp::Batch;
using ddp::DataLoader;
using ddp::DataLoaderOptions;
using ddp::EpochPlan;
using ddp::ExactSampler;
using ddp::test::content;
using ddp::test::deliver;
using ddp::test::error_of;
using ddp::test::Gate;
using ddp::test::HookedDataset;
using ddp::test::in_order;
using ddp::test::numbered_images;

// A hook for plans of in_order(): runs once per batch, at its first sample.
HookedDataset::Hook once_a_batch(std::function<void()> hook) {
  return [hook = std::move(hook)](std::int64_t index) {
    if (index % 4 == 0) hook();
  };
}

EpochPlan shuffled(std::int64_t dataset_size, int world_size, int rank, std::int64_t epoch) {
  return ExactSampler({.dataset_size = dataset_size,
                       .world_size = world_size,
                       .rank = rank,
                       .global_batch_size = 8,
                       .seed = 3})
      .plan({.epoch = epoch});
}

std::int64_t first_label(const Batch& batch) { return batch.labels.as<std::int64_t>()[0]; }

}  // namespace

TEST_CASE("the loader delivers every rank's batches, empty ones too", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(4);
  for (const int num_workers : {0, 2}) {
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(num_workers, rank);
      ExactSampler sampler({.dataset_size = dataset.size(),
                            .world_size = 3,
                            .rank = rank,
                            .global_batch_size = 3,
                            .shuffle = false});
      DataLoader loader(dataset, {.dtype = ddp::DType::kFloat64, .num_workers = num_workers});
      for (int epoch = 0; epoch < 2; ++epoch) {
        loader.start(sampler.next_epoch());
        const auto first = loader.next();
        REQUIRE(first);
        CHECK(first->count == 1);
        CHECK(first->global_count == 3);
        CHECK(first->inputs.as<double>()[3] == (rank / 255.0 - 0.5) / 0.25);
        CHECK(first_label(*first) == rank);
        const auto second = loader.next();
        REQUIRE(second);
        CHECK(second->step == 1);
        CHECK(second->count == (rank == 0 ? 1 : 0));
        CHECK(second->inputs.count == (rank == 0 ? 4U : 0U));
        CHECK(second->global_count == 1);
        CHECK_FALSE(loader.next());
        CHECK(loader.statistics().batches == 2);
      }
      CHECK(loader.plan().epoch() == 1);
    }
  }
}

TEST_CASE("batches do not depend on workers, prefetch or interrupted epochs", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(203);
  for (int rank = 0; rank < 3; ++rank) {
    DataLoader plain(dataset, {});
    plain.start(shuffled(203, 3, rank, 5));
    const auto expected = deliver(plain);
    REQUIRE(expected.size() == 26);
    for (const int num_workers : {0, 1, 2, 4}) {
      for (const int prefetch : {0, 1, 2, 7, 40}) {
        CAPTURE(rank, num_workers, prefetch);
        DataLoader loader(dataset, {.num_workers = num_workers, .prefetch = prefetch});
        loader.start(shuffled(203, 3, rank, 4));
        REQUIRE(deliver(loader, 9).size() == 9);
        loader.start(shuffled(203, 3, rank, 5));
        REQUIRE(deliver(loader) == expected);
      }
    }
  }
}

TEST_CASE("a job resumes after the batches that were delivered, not those gathered ahead",
          "[data][loader][resume]") {
  const ddp::ImageDataset dataset = numbered_images(50);
  ExactSampler sampler({.dataset_size = dataset.size(),
                        .world_size = 1,
                        .rank = 0,
                        .global_batch_size = 4,
                        .seed = 2});
  DataLoader whole(dataset, {.num_workers = 2, .prefetch = 5});
  whole.start(sampler.plan({.epoch = 3}));
  CHECK(whole.position() == ddp::DataPosition{.epoch = 3, .consumed = 0});
  for (int step = 0; step < 6; ++step) REQUIRE(whole.next());
  CHECK(whole.position() == ddp::DataPosition{.epoch = 3, .consumed = 24});

  sampler.seek(whole.position());
  DataLoader rest(dataset, {.num_workers = 1});
  rest.start(sampler.next_epoch());
  while (const auto expected = whole.next()) {
    const auto batch = rest.next();
    REQUIRE(batch);
    CHECK(batch->count == expected->count);
    CHECK(first_label(*batch) == first_label(*expected));
    CHECK(rest.position() == whole.position());
  }
  CHECK_FALSE(rest.next());
  CHECK(rest.position() == ddp::DataPosition{.epoch = 4, .consumed = 0});
}

TEST_CASE("a job that resumes reads nothing of what it has consumed", "[data][loader][resume]") {
  constexpr std::int64_t kSize = 1000;
  std::vector<std::atomic<int>> reads(kSize);
  const HookedDataset dataset(kSize, [&](std::int64_t i) { ++reads[static_cast<std::size_t>(i)]; });
  ExactSampler sampler(
      {.dataset_size = kSize, .world_size = 1, .rank = 0, .global_batch_size = 8, .seed = 3});
  const EpochPlan whole = sampler.plan({.epoch = 2});
  sampler.seek({.epoch = 2, .consumed = 984});
  DataLoader loader(dataset, {.num_workers = 2, .prefetch = 4});
  loader.start(sampler.next_epoch());
  std::vector<int> expected(kSize);
  for (const std::int64_t step : {123, 124}) {
    for (const std::int64_t i : whole.batch(step)) expected[static_cast<std::size_t>(i)] = 1;
    REQUIRE(loader.next());
  }
  CHECK_FALSE(loader.next());
  CHECK(std::vector<int>(reads.begin(), reads.end()) == expected);
}

TEST_CASE("an evaluation with workers sees each sample once", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(101);
  for (int world_size = 1; world_size <= 4; ++world_size) {
    std::vector<std::int64_t> seen;
    for (int rank = 0; rank < world_size; ++rank) {
      const ExactSampler sampler({.dataset_size = 101,
                                  .world_size = world_size,
                                  .rank = rank,
                                  .global_batch_size = 10,
                                  .shuffle = false});
      DataLoader loader(dataset, {.num_workers = 2});
      loader.start(sampler.plan({}));
      while (const auto batch = loader.next()) {
        const auto labels = batch->labels.as<std::int64_t>();
        seen.insert(seen.end(), labels.begin(), labels.end());
      }
    }
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> each_once(101);
    for (std::size_t i = 0; i < each_once.size(); ++i) each_once[i] = static_cast<int>(i);
    REQUIRE(seen == each_once);
  }
}

TEST_CASE("workers gather ahead without changing the batch in use", "[data][loader]") {
  Gate gathers;
  std::atomic<int> delivered{0};
  std::atomic<bool> too_far{false};
  const HookedDataset dataset(80, once_a_batch([&] {
                                if (gathers.count() > delivered + 3) too_far = true;
                                gathers.raise();
                              }));
  DataLoader loader(dataset, {.num_workers = 2, .prefetch = 3});
  loader.start(in_order(80));
  for (int step = 0; step < 20; ++step) {
    const auto batch = loader.next();
    REQUIRE(batch);
    const auto before = content(*batch);
    // Three more batches are gathered in advance, into other memory.
    REQUIRE(gathers.wait_for(std::min(step + 4, 20)));
    REQUIRE(content(*batch) == before);
    REQUIRE(first_label(*batch) == 4 * step);
    ++delivered;
  }
  CHECK_FALSE(too_far);
}

TEST_CASE("batches are gathered concurrently", "[data][loader]") {
  Gate inside;
  std::atomic<bool> alone{false};
  const HookedDataset dataset(8, once_a_batch([&] {
                                inside.raise();
                                // Each gather waits until the other one has begun.
                                if (!inside.wait_for(2)) alone = true;
                              }));
  DataLoader loader(dataset, {.num_workers = 2});
  loader.start(in_order(8));
  CHECK(deliver(loader).size() == 2);
  CHECK_FALSE(alone);
}

TEST_CASE("batches use a few buffers in turn", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(100);
  const auto addresses = [&](const DataLoaderOptions& options) {
    DataLoader loader(dataset, options);
    std::set<const void*> seen;
    for (int epoch = 0; epoch < 3; ++epoch) {
      loader.start(shuffled(100, 1, 0, epoch));
      while (const auto batch = loader.next()) seen.insert(batch->inputs.data);
    }
    return seen.size();
  };
  CHECK(addresses({}) == 1);
  CHECK(addresses({.num_workers = 1}) == 3);
  CHECK(addresses({.num_workers = 2}) == 5);
  CHECK(addresses({.num_workers = 2, .prefetch = 1}) == 2);
}

TEST_CASE("a later plan may have larger batches", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(100);
  DataLoader loader(dataset, {.num_workers = 1});
  for (const std::int64_t size : {3, 50, 7}) {
    loader.start(ExactSampler({.dataset_size = 100,
                               .world_size = 1,
                               .rank = 0,
                               .global_batch_size = size,
                               .shuffle = false})
                     .plan({}));
    const auto batch = loader.next();
    REQUIRE(batch);
    CHECK(batch->count == size);
    CHECK(batch->labels.as<std::int64_t>().back() == size - 1);
  }
}

TEST_CASE("a loader may end or start anew at any time", "[data][loader]") {
  const ddp::ImageDataset dataset = numbered_images(64);
  for (const int num_workers : {0, 1, 2, 4}) {
    CAPTURE(num_workers);
    DataLoader loader(dataset, {.num_workers = num_workers});
    for (std::size_t batches = 0; batches < 17; ++batches) {
      DataLoader other(dataset, {.num_workers = num_workers});
      if (batches % 4 != 3) other.start(in_order(64));
      loader.start(in_order(64));
      REQUIRE(deliver(loader, batches).size() == std::min<std::size_t>(batches, 16));
    }
  }
}

TEST_CASE("a loader that ends, or starts anew, does not read the rest of a batch",
          "[data][loader]") {
  constexpr std::int64_t kSamples = 5000;
  std::atomic<std::int64_t> reads{0};
  Gate begun;
  const HookedDataset dataset(kSamples, [&](std::int64_t) {
    ++reads;
    begun.raise();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a slow disk
  });
  const EpochPlan whole =
      ExactSampler(
          {.dataset_size = kSamples, .world_size = 1, .rank = 0, .global_batch_size = kSamples})
          .plan({});
  {
    DataLoader loader(dataset, {.num_workers = 1});
    loader.start(whole);
    REQUIRE(begun.wait_for(1));
    loader.start(whole);
    CHECK(reads < kSamples);
    REQUIRE(begun.wait_for(static_cast<int>(reads) + 1));
  }
  CHECK(reads < kSamples);
}

TEST_CASE("from the start of an epoch to its end nothing is allocated", "[data][loader]") {
  const ddp::ImageDataset images = numbered_images(400);
  const auto subsets = ddp::split(images, {0.5, 0.5}, 1);
  for (const int num_workers : {0, 2}) {
    CAPTURE(num_workers);
    DataLoader loader(subsets[0], {.num_workers = num_workers});
    loader.start(shuffled(200, 1, 0, 0));
    const std::int64_t before = ddp::test::allocations();
    std::int64_t samples = 0;
    while (const auto batch = loader.next()) samples += batch->count;
    CHECK(ddp::test::allocations() == before);
    CHECK(samples == 200);
  }
  CHECK(ddp::test::allocations() > 0);
}

TEST_CASE("the time that next() needed is measured for each epoch", "[data][loader]") {
  using namespace std::chrono_literals;
  Gate gathers;
  const HookedDataset dataset(20, once_a_batch([&] {
                                std::this_thread::sleep_for(100ms);  // a slow disk
                                gathers.raise();
                              }));
  DataLoader alone(dataset, {});
  CHECK(alone.statistics().batches == 0);
  alone.start(in_order(20));
  REQUIRE(deliver(alone).size() == 5);
  CHECK(alone.statistics().batches == 5);
  CHECK(alone.statistics().wait_seconds >= 0.5);
  const double alone_waited = alone.statistics().wait_seconds;
  alone.start(in_order(20));
  CHECK(alone.statistics().batches == 0);
  CHECK(alone.statistics().wait_seconds == 0);

  DataLoader ahead(dataset, {.num_workers = 1, .prefetch = 4});
  ahead.start(in_order(20));
  REQUIRE(gathers.wait_for(10));  // all five are ready before the first is requested
  REQUIRE(deliver(ahead).size() == 5);
  CHECK(ahead.statistics().wait_seconds < alone_waited);
}

TEST_CASE("a fork can destroy a loader, but not use it", "[loader]") {
  const ddp::ImageDataset images = numbered_images(8);
  std::optional<DataLoader> loader(std::in_place, images, DataLoaderOptions{.num_workers = 2});
  const ExactSampler sampler(
      {.dataset_size = 8, .world_size = 1, .rank = 0, .global_batch_size = 2});
  loader->start(sampler.plan({}));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    const std::string error = error_of([&] { (void)loader->next(); });
    loader.reset();
    const std::string owner = "belongs to process " + std::to_string(::getppid());
    ::_exit(error.find(owner) != std::string::npos ? 0 : 1);
  }
  int status = -1;
  CHECK((::waitpid(child, &status, 0) == child && status == 0));
  CHECK(loader->next()->count == 2);
}
