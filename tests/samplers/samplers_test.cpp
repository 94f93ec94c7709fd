// SPDX-License-Identifier: MIT
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iomanip>
#include <random>
#include <sstream>
#include <type_traits>

#include "ddp/samplers/distributed_sampler.h"
#include "ddp/samplers/exact_sampler.h"
#include "ddp/samplers/randperm.h"
#include "support/run_ranks.h"

// An option that must be given is as strict about its value as any other.
static_assert(std::is_convertible_v<int, ddp::Required<std::int64_t>>);
static_assert(!std::is_convertible_v<double, ddp::Required<std::int64_t>>);
static_assert(!std::is_convertible_v<std::int64_t, ddp::Required<int>>);

namespace {

using ddp::DataPosition;
using ddp::DistributedSampler;
using ddp::DistributedSamplerOptions;
using ddp::EpochPlan;
using ddp::ExactSampler;
using ddp::ExactSamplerOptions;
using ddp::randperm;
using ddp::test::error_of;
using Indices = std::vector<std::int64_t>;

std::uint64_t fnv(const Indices& values) {
  std::uint64_t hash = 1469598103934665603U;
  for (const std::int64_t value : values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211U;
  }
  return hash;
}

Indices first_of(std::int64_t n, std::uint64_t seed, std::size_t count) {
  Indices values = randperm(n, seed);
  values.resize(count);
  return values;
}

Indices torch_indices(DistributedSamplerOptions options, int rank, std::int64_t epoch) {
  options.rank = rank;
  return DistributedSampler(options).plan({.epoch = epoch}).indices();
}

std::vector<Indices> torch_world(const DistributedSamplerOptions& options, std::int64_t epoch) {
  std::vector<Indices> ranks;
  for (int rank = 0; rank < options.world_size; ++rank) {
    ranks.push_back(torch_indices(options, rank, epoch));
  }
  return ranks;
}

std::string hex(std::uint64_t hash) {
  std::ostringstream digits;
  digits << std::hex << std::setw(16) << std::setfill('0') << hash;
  return digits.str();
}

std::string our_randperm_line(std::istream& in) {
  std::int64_t n = 0;
  std::uint64_t seed = 0;
  in >> n >> seed;
  std::ostringstream out;
  out << "randperm " << n << ' ' << seed << ' ' << hex(fnv(randperm(n, seed)));
  return out.str();
}

// "4,3,6", or "-" for none.
std::string joined(const Indices& values) {
  std::ostringstream out;
  for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ",") << values[i];
  return values.empty() ? "-" : out.str();
}

std::string first_and_hash(const std::vector<Indices>& ranks) {
  Indices all;
  for (const Indices& rank : ranks) {
    all.push_back(static_cast<std::int64_t>(rank.size()));
    all.insert(all.end(), rank.begin(), rank.end());
  }
  const Indices& first = ranks.front();
  const auto shown = static_cast<std::ptrdiff_t>(std::min<std::size_t>(first.size(), 4));
  return joined({first.begin(), first.begin() + shown}) + ' ' + hex(fnv(all));
}

std::string our_sampler_line(const std::string& kind, std::istream& in) {
  DistributedSamplerOptions options{.dataset_size = 0, .world_size = 1, .rank = 0};
  std::int64_t dataset_size = 0, epoch = 0;
  int world_size = 0;
  in >> dataset_size >> world_size >> options.seed >> epoch >> options.shuffle >> options.drop_last;
  options.dataset_size = dataset_size;
  options.world_size = world_size;
  std::ostringstream out;
  out << kind << ' ' << options.dataset_size << ' ' << options.world_size << ' ' << options.seed
      << ' ' << epoch << ' ' << options.shuffle << ' ' << options.drop_last;
  const std::vector<Indices> ranks = torch_world(options, epoch);
  if (kind == "sampler") return out.str() + ' ' + first_and_hash(ranks);
  for (const Indices& rank : ranks) out << ' ' << joined(rank);
  return out.str();
}

// The output of our samplers for the case in a line of sampler_vectors.txt.
// make_sampler_reference.py describes the format.
std::string ours_for(const std::string& line) {
  std::istringstream in(line);
  std::string kind;
  in >> kind;
  return kind == "randperm" ? our_randperm_line(in) : our_sampler_line(kind, in);
}

std::vector<EpochPlan> exact_world(ExactSamplerOptions options, const DataPosition& position = {}) {
  std::vector<EpochPlan> plans;
  for (int rank = 0; rank < options.world_size; ++rank) {
    options.rank = rank;
    plans.push_back(ExactSampler(options).plan(position));
  }
  return plans;
}

// The global batch of a step, assembled from the ranks' parts.
Indices global_batch(const std::vector<EpochPlan>& plans, std::int64_t step) {
  Indices all(static_cast<std::size_t>(plans.front().global_count(step)));
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    const Indices part = plans[rank].batch(step);
    for (std::size_t i = 0; i < part.size(); ++i) all.at(rank + i * plans.size()) = part[i];
  }
  return all;
}

Indices all_samples(const std::vector<EpochPlan>& plans) {
  Indices all;
  for (const EpochPlan& plan : plans) {
    const Indices part = plan.indices();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

bool is_each_once(Indices samples, std::int64_t dataset_size) {
  std::sort(samples.begin(), samples.end());
  Indices expected(static_cast<std::size_t>(dataset_size));
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::int64_t>(i);
  return samples == expected;
}

}  // namespace

TEST_CASE("randperm gives PyTorch's permutations", "[samplers][randperm]") {
  CHECK(randperm(0, 0).empty());
  CHECK(randperm(1, 5) == Indices{0});
  CHECK(randperm(10, 0) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(first_of(1000, 42, 10) == Indices{542, 618, 816, 68, 94, 215, 60, 585, 942, 165});
  CHECK(first_of(100000, 123456789, 10) ==
        Indices{408, 48209, 45134, 99832, 1174, 34945, 18088, 46299, 90418, 36883});
  CHECK(first_of(100, (1ULL << 32) + 5, 10) == Indices{11, 22, 39, 23, 42, 30, 78, 81, 64, 20});
  CHECK(first_of(1000000, 0, 10) ==
        Indices{136044, 250786, 721077, 104641, 859319, 866804, 269473, 943976, 598057, 209794});
  CHECK(fnv(randperm(10, 0)) == 18156090867325331628U);
  CHECK(fnv(randperm(1000, 42)) == 13571567658559829459U);
  CHECK(fnv(randperm(1000000, 0)) == 3733494691713695857U);
  CHECK(error_of([] { (void)randperm(-1, 0); }) == "[randperm] n is -1, below 0");
}

// Takes 1.7 GB and some seconds, so it runs only by name.
TEST_CASE("randperm draws 64 bits from PyTorch's threshold on", "[.][slow][randperm]") {
  CHECK(first_of(214748363, 3, 6) ==
        Indices{3426993, 89012687, 34994685, 171579910, 175684569, 91605569});
  CHECK(first_of(214748364, 3, 6) ==
        Indices{50815193, 116864026, 18612126, 8421410, 157113196, 174023950});
}

TEST_CASE("DistributedSampler deals out the same samples as PyTorch's", "[samplers][torch]") {
  using Ranks = std::vector<Indices>;
  const DistributedSamplerOptions ten{.dataset_size = 10, .world_size = 4, .rank = 0};
  CHECK(torch_world(ten, 0) == Ranks{{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}});
  CHECK(torch_world(ten, 1) == Ranks{{5, 0, 7}, {6, 8, 4}, {1, 9, 5}, {2, 3, 6}});
  CHECK(torch_world({.dataset_size = 10, .world_size = 4, .rank = 0, .seed = 7, .drop_last = true},
                    2) == Ranks{{0, 6}, {5, 2}, {8, 9}, {7, 1}});
  CHECK(torch_world({.dataset_size = 11, .world_size = 4, .rank = 0, .drop_last = true}, 0) ==
        Ranks{{10, 5}, {0, 8}, {4, 2}, {3, 1}});
  CHECK(torch_world({.dataset_size = 8, .world_size = 4, .rank = 0, .drop_last = true}, 0) ==
        Ranks{{4, 2}, {0, 5}, {7, 1}, {3, 6}});
  CHECK(torch_world({.dataset_size = 3, .world_size = 8, .rank = 0}, 0) ==
        Ranks{{2}, {0}, {1}, {2}, {0}, {1}, {2}, {0}});
  CHECK(torch_world({.dataset_size = 3, .world_size = 8, .rank = 0, .drop_last = true}, 0) ==
        Ranks(8));
  CHECK(torch_world({.dataset_size = 10, .world_size = 4, .rank = 0, .shuffle = false}, 0) ==
        Ranks{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
}

TEST_CASE("the samplers agree with vectors that PyTorch printed", "[samplers][torch]") {
  std::ifstream file(DDP_REFERENCE_DIR "/sampler_vectors.txt");
  REQUIRE(file);
  std::string line;
  std::getline(file, line);  // the version of PyTorch
  int checked = 0;
  while (std::getline(file, line)) {
    CAPTURE(line);
    REQUIRE(ours_for(line) == line);
    ++checked;
  }
  CHECK(checked == 10 * 7 + 11 * 64 + 15 * 64);
}

TEST_CASE("DistributedSampler cuts a rank's samples into batches", "[samplers][torch]") {
  const DistributedSampler sampler(
      {.dataset_size = 10, .world_size = 4, .rank = 1, .batch_size = 2, .shuffle = false});
  const EpochPlan plan = sampler.plan({});
  REQUIRE(plan.steps() == 2);
  CHECK(plan.batch(0) == Indices{1, 5});
  CHECK(plan.batch(1) == Indices{9});
  CHECK(plan.global_count(0) == 8);
  CHECK(plan.global_count(1) == 4);
  CHECK(plan.count(1, 3) == 1);
}

TEST_CASE("ExactSampler cuts a global batch as evenly as possible", "[samplers][exact]") {
  const auto plans = exact_world(
      {.dataset_size = 17, .world_size = 3, .rank = 0, .global_batch_size = 8, .shuffle = false});
  REQUIRE(plans[0].steps() == 3);
  CHECK(plans[0].batch(0) == Indices{0, 3, 6});
  CHECK(plans[1].batch(0) == Indices{1, 4, 7});
  CHECK(plans[2].batch(0) == Indices{2, 5});
  CHECK(plans[0].batch(2) == Indices{16});
  CHECK(plans[1].batch(2).empty());
  CHECK(plans[2].global_count(2) == 1);
  CHECK(plans[2].count(0, 0) == 3);
  CHECK(plans[0].count(0, 2) == 2);
}

TEST_CASE("ExactSampler deals out each sample once, on any number of ranks", "[samplers][exact]") {
  for (std::int64_t n = 0; n <= 200; ++n) {
    for (int world_size = 1; world_size <= 16; ++world_size) {
      CAPTURE(n, world_size);
      const auto plans = exact_world({.dataset_size = n,
                                      .world_size = world_size,
                                      .rank = 0,
                                      .global_batch_size = 1 + n % 37,
                                      .shuffle = n % 2 == 0,
                                      .seed = 9});
      REQUIRE(is_each_once(all_samples(plans), n));
    }
  }
}

TEST_CASE("an evaluation sees each sample once, in the data's order", "[samplers][exact]") {
  for (const std::int64_t n : {1, 7, 1000, 10000}) {
    for (int world_size = 1; world_size <= 16; ++world_size) {
      CAPTURE(n, world_size);
      const auto plans = exact_world({.dataset_size = n,
                                      .world_size = world_size,
                                      .rank = 0,
                                      .global_batch_size = 999,
                                      .shuffle = false});
      Indices seen;
      for (std::int64_t step = 0; step < plans[0].steps(); ++step) {
        const Indices batch = global_batch(plans, step);
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
      REQUIRE(is_each_once(seen, n));
      REQUIRE(std::is_sorted(seen.begin(), seen.end()));
    }
  }
}

TEST_CASE("every rank knows every rank's share of a step", "[samplers][exact]") {
  for (int world_size = 1; world_size <= 5; ++world_size) {
    const auto plans = exact_world(
        {.dataset_size = 103, .world_size = world_size, .rank = 0, .global_batch_size = 8});
    for (std::int64_t step = 0; step < 13; ++step) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        const auto& plan = plans[static_cast<std::size_t>(rank)];
        const auto actual = static_cast<std::int64_t>(plan.batch(step).size());
        for (const EpochPlan& other : plans) REQUIRE(other.count(step, rank) == actual);
        sum += actual;
      }
      REQUIRE(sum == plans[0].global_count(step));
    }
    REQUIRE(plans[0].steps() == 13);
  }
}

TEST_CASE("the global batches do not depend on the number of ranks", "[samplers][exact]") {
  const auto one = exact_world(
      {.dataset_size = 103, .world_size = 1, .rank = 0, .global_batch_size = 8, .seed = 3});
  for (const int world_size : {2, 3, 4, 16}) {
    const auto many = exact_world({.dataset_size = 103,
                                   .world_size = world_size,
                                   .rank = 0,
                                   .global_batch_size = 8,
                                   .seed = 3});
    for (std::int64_t step = 0; step < one[0].steps(); ++step) {
      REQUIRE(global_batch(many, step) == one[0].batch(step));
    }
  }
}

TEST_CASE("ranks of one job have one fingerprint of their plans, and no other job has it",
          "[samplers][exact]") {
  const ExactSamplerOptions job{
      .dataset_size = 100, .world_size = 2, .rank = 0, .global_batch_size = 8};
  const auto fingerprint = [](ExactSamplerOptions options, DataPosition position = {}) {
    return ExactSampler(options).plan(position).fingerprint();
  };
  const auto changed = [&](auto change) {
    ExactSamplerOptions options = job;
    change(options);
    return fingerprint(options);
  };
  const std::uint32_t own = fingerprint(job);
  CHECK(own != 0);
  CHECK(changed([](auto& options) { options.rank = 1; }) == own);
  CHECK(changed([](auto& options) { options.dataset_size = 101; }) != own);
  CHECK(changed([](auto& options) { options.global_batch_size = 10; }) != own);
  CHECK(changed([](auto& options) { options.world_size = 3; }) != own);
  CHECK(changed([](auto& options) { options.seed = 1; }) != own);
  CHECK(changed([](auto& options) { options.shuffle = false; }) != own);
  CHECK(fingerprint(job, {.consumed = 8}) != own);
  CHECK(changed([](auto& options) { options.world_size = 1; }) == 0);  // its data may be its own
}

TEST_CASE("epochs advance automatically, and set_epoch changes them", "[samplers][epoch]") {
  DistributedSampler sampler({.dataset_size = 50, .world_size = 1, .rank = 0, .seed = 1});
  const Indices zero = sampler.next_epoch().indices();
  const EpochPlan one = sampler.next_epoch();
  CHECK(one.epoch() == 1);
  CHECK(one.indices() != zero);
  CHECK(one.indices() == randperm(50, 2));

  for (const std::int64_t epoch : {0, 1, 2}) {
    sampler.set_epoch(epoch);  // as PyTorch programs do
    CHECK(sampler.next_epoch().epoch() == epoch);
  }
  sampler.set_epoch(0);
  sampler.set_epoch(7);  // the last call counts
  CHECK(sampler.next_epoch().epoch() == 7);
  CHECK(sampler.next_epoch().epoch() == 8);
}

TEST_CASE("an interrupted epoch resumes with another world size, each sample once",
          "[samplers][resume]") {
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 1000; ++round) {
    ExactSamplerOptions options{.dataset_size = pick(1, 300),
                                .world_size = static_cast<int>(pick(1, 16)),
                                .rank = 0,
                                .global_batch_size = pick(1, 40),
                                .seed = 5};
    const auto before = exact_world(options, {.epoch = 2});
    const std::int64_t stop = pick(0, before[0].steps() - 1);
    Indices samples;
    for (std::int64_t step = 0; step < stop; ++step) {
      const Indices batch = global_batch(before, step);
      samples.insert(samples.end(), batch.begin(), batch.end());
    }
    options.world_size = static_cast<int>(pick(1, 16));
    options.global_batch_size = pick(1, 40);
    const Indices rest = all_samples(exact_world(options, before[0].position(stop)));
    samples.insert(samples.end(), rest.begin(), rest.end());
    CAPTURE(round, stop, options.dataset_size);
    REQUIRE(is_each_once(samples, options.dataset_size));
  }
}

TEST_CASE("whole_batches leaves out the last step if it is smaller", "[samplers]") {
  const auto plan = [](std::int64_t size, std::int64_t consumed) {
    const ExactSampler sampler({.dataset_size = size,
                                .world_size = 1,
                                .rank = 0,
                                .global_batch_size = 4,
                                .shuffle = false});
    return sampler.plan({.epoch = 3, .consumed = consumed}).whole_batches();
  };
  CHECK(plan(10, 0).indices() == Indices{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(plan(10, 4).indices() == Indices{4, 5, 6, 7});
  CHECK(plan(8, 0).steps() == 2);
  CHECK(plan(10, 8).steps() == 0);
  CHECK(plan(10, 0).position(2) == DataPosition{.epoch = 4, .consumed = 0});
}

TEST_CASE("seek resumes inside an epoch, and later epochs follow", "[samplers][resume]") {
  DistributedSampler sampler({.dataset_size = 10, .world_size = 4, .rank = 2, .seed = 3});
  const EpochPlan whole = sampler.plan({.epoch = 4});
  REQUIRE(whole.steps() == 3);
  sampler.seek(whole.position(1));
  const EpochPlan rest = sampler.next_epoch();
  CHECK(rest.steps() == 2);
  CHECK(rest.batch(0) == whole.batch(1));
  CHECK(rest.batch(1) == whole.batch(2));
  CHECK(rest.position(1) == whole.position(2));
  CHECK(rest.position(2) == DataPosition{.epoch = 5, .consumed = 0});
  CHECK(sampler.next_epoch().epoch() == 5);
}

TEST_CASE("a program that names neither world size nor rank does not compile", "[samplers]") {
  STATIC_REQUIRE_FALSE(std::is_default_constructible_v<ExactSamplerOptions>);
  STATIC_REQUIRE_FALSE(std::is_default_constructible_v<DistributedSamplerOptions>);
}

TEST_CASE("bad options and calls are refused with their values", "[samplers][errors]") {
  const auto torch_error = [](const DistributedSamplerOptions& options) {
    return error_of([&] { const DistributedSampler sampler(options); });
  };
  CHECK(torch_error({.dataset_size = 10, .world_size = 4, .rank = 4}) ==
        "[distributed_sampler] rank 4 is not in [0, 3]");
  CHECK(torch_error({.dataset_size = 10, .world_size = 1, .rank = -1}) ==
        "[distributed_sampler] rank -1 is not in [0, 0]");
  CHECK(torch_error({.dataset_size = -1, .world_size = 1, .rank = 0}) ==
        "[distributed_sampler] dataset_size is -1, below 0");
  CHECK(torch_error({.dataset_size = 10, .world_size = 0, .rank = 0}) ==
        "[distributed_sampler] world_size is 0, below 1");
  CHECK_THROWS_AS(
      ExactSampler({.dataset_size = 1, .world_size = 1, .rank = 0, .global_batch_size = 0}),
      std::invalid_argument);

  ExactSampler sampler({.dataset_size = 10, .world_size = 1, .rank = 0, .global_batch_size = 4});
  CHECK(error_of([&] { (void)sampler.plan({.epoch = 1, .consumed = 11}); }) ==
        "[exact_sampler] epoch 1, sample 11 is not a position in a dataset of 10 samples");
  CHECK(error_of([&] { (void)sampler.plan({}).batch(3); }) ==
        "[epoch_plan] step 3 of epoch 0 is not in [0, 3)");
  CHECK_THROWS_AS(sampler.plan({}).count(0, 1), std::invalid_argument);
  Indices room(3);
  CHECK(error_of([&] { sampler.plan({}).copy_batch(0, room); }) ==
        "[epoch_plan] room for 3 samples, but step 0 has 4");
  CHECK_THROWS_AS(sampler.set_epoch(-1), std::invalid_argument);
}

TEST_CASE("a plan's layout is checked when it is made", "[samplers]") {
  const auto error = [](const EpochPlan::Layout& layout) {
    return error_of([&] { const EpochPlan plan(layout, {0, 1, 2, 3, 4}); });
  };
  CHECK(error({.count = 5}).empty());
  for (const EpochPlan::Layout& layout :
       {EpochPlan::Layout{.first = -3}, EpochPlan::Layout{.count = -1},
        EpochPlan::Layout{.global_batch_size = 0}, EpochPlan::Layout{.world_size = 0},
        EpochPlan::Layout{.world_size = 2, .rank = 2}, EpochPlan::Layout{.rank = -1}}) {
    CHECK_THAT(error(layout), Catch::StartsWith("[epoch_plan] first is "));
  }
}
