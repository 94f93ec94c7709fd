// SPDX-License-Identifier: MIT
//
// Random options, passes and sample counts, compared with the weighted mean that one process
// computes in float64. A case depends only on its number, so a failure can be reproduced.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "support/groups.h"

using namespace ddp;
using test::expect;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kSteps = 6;

// Random numbers that depend on their purpose, not on the order of calls.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}

  // A number in 0 .. sides - 1.
  template <class... What>
  [[nodiscard]] std::size_t roll(std::size_t sides, What... what) const {
    std::uint64_t bits = mix(seed_);
    for (const auto each : {static_cast<std::uint64_t>(what)...}) bits = mix(bits ^ each);
    return static_cast<std::size_t>(bits % sides);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  std::uint64_t seed_;
};

enum What : std::uint64_t {
  kOption,
  kCount,
  kDType,
  kOwn,
  kOrder,
  kPasses,
  kGuard,
  kSamples,
  kActive,
  kStop,
  kVote,
  kUse,
  kValue,
  kBad,
  kIdle,
  kMetric,
  kMarkOrder,
};

// The plan of a case, as functions of step, pass and rank.
struct Plan {
  explicit Plan(std::uint64_t number, int world)
      : dice(number), world_size(world), parameters(1 + dice.roll(7, kCount)) {
    options.nominal_samples = 1 + static_cast<double>(option(4));
    options.gradient_kind = option(2) == 0 ? GradientKind::kMean : GradientKind::kSum;
    options.scale_at_ready = option(4) == 0;
    options.fold_scale = option(3) == 0;
    options.unused = static_cast<UnusedParameters>(option(3));
    const std::size_t hook = option(6);
    if (hook == 0) options.hook = compress_to_bfloat16;
    if (hook == 1) options.hook = compress_to_float16;
    options.fingerprint_every = std::array{0, 1, 3}[option(3)];
    options.non_finite = option(2) == 0 ? NonFinite::kIgnore : NonFinite::kSkip;
    options.scan_gradients = option(2) == 0;
    options.record_times = option(2) == 0;
    options.buffer_sync = static_cast<BufferSync>(option(3));
    options.buckets.bucket_bytes_cap = std::array{1, 600, 4000}[option(3)];
    options.buckets.min_buckets = 1 + option(4);
    options.buckets.overlap = option(4) != 0;
    if (option(2) == 0) options.buckets.order = order(0);
    first_inactive = static_cast<int>(option(2)) == 0 ? kSteps : 0;
  }

  std::size_t option(std::size_t sides) { return dice.roll(sides, kOption, next_option++); }

  [[nodiscard]] std::vector<std::size_t> order(std::size_t which) const {
    std::vector<std::size_t> all(parameters);
    for (std::size_t i = 0; i < parameters; ++i) all[i] = i;
    for (std::size_t i = parameters; i > 1; --i) {
      std::swap(all[i - 1], all[dice.roll(i, kOrder, which, i)]);
    }
    return all;
  }
  [[nodiscard]] std::size_t count(std::size_t i) const {
    return std::array{1, 7, 64, 131}[dice.roll(4, kCount, i)];
  }
  [[nodiscard]] DType dtype(std::size_t i) const {
    return std::array{DType::kFloat64, DType::kFloat64, DType::kFloat32, DType::kFloat16,
                      DType::kBFloat16}[dice.roll(5, kDType, i)];
  }
  [[nodiscard]] bool is_own(std::size_t i, int rank) const {
    return dice.roll(3, kOwn, i, rank) == 0;
  }
  [[nodiscard]] int passes(int step) const {
    if (options.scale_at_ready) return 1;
    return std::array{1, 1, 2, 3}[dice.roll(4, kPasses, step)];
  }
  // Ranks run out at different steps, or never; some come back.
  [[nodiscard]] bool is_active(int step, int pass, int rank) const {
    return step < first_inactive || dice.roll(3, kActive, step, pass, rank) != 0;
  }
  [[nodiscard]] double samples(int step, int pass, int rank) const {
    if (!is_active(step, pass, rank)) return 0;
    return std::array{0.0, 1.0, 2.0, 5.0}[dice.roll(4, kSamples, step, pass, rank)];
  }
  // A pass without samples may run backward on an empty batch.
  [[nodiscard]] bool runs_backward(int step, int pass, int rank) const {
    return samples(step, pass, rank) > 0 || dice.roll(2, kIdle, step, pass, rank) == 0;
  }
  // How often backward marks parameter i.
  [[nodiscard]] int uses(int step, int pass, int rank, std::size_t i) const {
    if (!runs_backward(step, pass, rank)) return 0;
    if (options.unused == UnusedParameters::kError) return 1;
    if (options.unused == UnusedParameters::kZero)
      return dice.roll(3, kUse, step, pass, rank, i) > 0;
    return i == 0 ? 1 : static_cast<int>(dice.roll(3, kUse, rank, i));
  }
  // The gradient of the mean loss; the same for all elements except the last.
  [[nodiscard]] double gradient(int step, int pass, int rank, std::size_t i, bool is_last) const {
    if (is_bad(step, pass, rank, i)) return kNan;
    return static_cast<double>(dice.roll(17, kValue, step, pass, rank, i, is_last ? 1 : 0)) - 8;
  }
  [[nodiscard]] bool is_bad(int step, int pass, int rank, std::size_t i) const {
    return options.non_finite == NonFinite::kSkip && dice.roll(60, kBad, step, pass, rank, i) == 0;
  }

  Dice dice;
  int world_size;
  std::size_t parameters;
  std::uint64_t next_option = 0;
  DdpOptions options;
  int first_inactive = kSteps;
};

std::vector<double> elements(const Buffer& buffer) {
  std::vector<double> all(buffer.count);
  cpu::cast(buffer, buffer_of(all));
  return all;
}

void store(std::vector<double> all, const Buffer& buffer) { cpu::cast(buffer_of(all), buffer); }

double precision_of(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-13;
  if (dtype == DType::kFloat32) return 1e-6;
  return dtype == DType::kFloat16 ? 2e-3 : 1.6e-2;
}

// The result of a step as one process computes it.
struct Truth {
  Truth(const Plan& plan, int step) {
    int active = 0;
    for (int rank = 0; rank < plan.world_size; ++rank) {
      bool is_active = false, asks = false;
      for (int pass = 0; pass < plan.passes(step); ++pass) {
        is_active = is_active || plan.is_active(step, pass, rank);
        asks = asks || plan.dice.roll(9, kStop, step, pass, rank) == 0;
        const double n = plan.samples(step, pass, rank);
        samples += n;
        metric += n * static_cast<double>(plan.dice.roll(9, kMetric, step, pass, rank));
      }
      active += is_active ? 1 : 0;
      stop = stop || asks;
      votes += plan.dice.roll(2, kVote, step, rank) == 0 ? 1 : 0;
    }
    active_ranks = active;
    for (std::size_t i = 0; i < plan.parameters; ++i) add_parameter(plan, step, i);
  }

  void add_parameter(const Plan& plan, int step, std::size_t i) {
    std::array<double, 2> sums = {0, 0};
    double magnitude = 0;
    bool used = false;
    for (int rank = 0; rank < plan.world_size; ++rank) {
      for (int pass = 0; pass < plan.passes(step); ++pass) {
        if (plan.uses(step, pass, rank, i) == 0) continue;
        const double n = plan.samples(step, pass, rank);
        if (n == 0) continue;
        used = true;
        for (const bool is_last : {false, true}) {
          sums[is_last] += n * plan.gradient(step, pass, rank, i, is_last);
        }
        is_finite = is_finite && std::isfinite(sums[0]);
        magnitude += 8 * n;
      }
    }
    const double divisor = samples == 0 ? 1 : samples;
    means.push_back({sums[0] / divisor, sums[1] / divisor});
    magnitudes.push_back(std::max(8.0, magnitude / divisor));
    is_used.push_back(used);
  }

  double samples = 0;
  double metric = 0;
  int active_ranks = 0;
  int votes = 0;
  bool stop = false;
  bool is_finite = true;
  std::vector<std::array<double, 2>> means;  // of all elements but the last, and of the last one
  std::vector<double> magnitudes;
  std::vector<bool> is_used;
};

// One rank in a case.
class Trainee {
 public:
  Trainee(const Plan& plan, ProcessGroup& group)
      : plan_(plan),
        group_(group),
        statistics_(3, static_cast<float>(group.rank())),
        values_(plan.parameters),
        own_(plan.parameters),
        ddp_(group.shared_from_this(), make_parameters(), with_buffer()) {}

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      const Truth truth(plan_, step);
      take(step);
      check(step, truth);
    }
  }

 private:
  std::vector<Parameter> make_parameters() {
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < plan_.parameters; ++i) {
      const std::size_t count = plan_.count(i);
      values_[i].resize(count);
      own_[i].assign(count, kNan);
      parameters.push_back({"p" + std::to_string(i),
                            {static_cast<std::int64_t>(count)},
                            {values_[i].data(), count, plan_.dtype(i), kCpuDevice}});
      if (!plan_.is_own(i, group_.rank())) continue;
      parameters[i].grad = parameters[i].value;
      parameters[i].grad.data = own_[i].data();
    }
    parameters_ = parameters;
    return parameters;
  }

  DdpOptions with_buffer() {
    DdpOptions options = plan_.options;
    options.buffers = {{"statistics", buffer_of(statistics_)}};
    return options;
  }

  void take(int step) {
    const int passes = plan_.passes(step);
    const bool by_guard = plan_.dice.roll(2, kGuard, step) == 0;
    if (!by_guard) ddp_.accumulate(passes);
    held_ = 0;
    for (int pass = 0; pass < passes; ++pass) {
      std::optional<DistributedDataParallel::NoSync> guard;
      if (by_guard && pass + 1 < passes) guard.emplace(ddp_.no_sync());
      take_pass(step, pass);
      expect(ddp_.is_synchronized() == (pass + 1 == passes), "the last pass reduces");
    }
  }

  void take_pass(int step, int pass) {
    const int rank = group_.rank();
    const double n = plan_.samples(step, pass, rank);
    std::ranges::fill(statistics_, static_cast<float>(rank + step));
    ddp_.begin_forward();
    const double factor =
        ddp_.begin_step({.samples = n,
                         .is_active = plan_.is_active(step, pass, rank),
                         .asks_to_stop = plan_.dice.roll(9, kStop, step, pass, rank) == 0});
    ddp_.record_metric(3, n == 0 ? kNan : metric(step, pass), n);
    ddp_.vote(2, plan_.dice.roll(2, kVote, step, rank) == 0);
    for (const std::size_t i : plan_.order(static_cast<std::size_t>(1 + 7 * step + pass + rank))) {
      const int uses = plan_.uses(step, pass, rank, i);
      if (uses > 0) give(step, pass, i, factor, uses);
    }
    held_ += n;
    ddp_.wait();
    ++passes_;
  }

  [[nodiscard]] double metric(int step, int pass) const {
    return static_cast<double>(plan_.dice.roll(9, kMetric, step, pass, group_.rank()));
  }

  // Runs backward for parameter i. The first pass overwrites the gradient, later ones add to it. A
  // pass without samples writes NaN, unless an earlier pass of the step had samples.
  void give(int step, int pass, std::size_t i, double factor, int uses) {
    const double n = plan_.samples(step, pass, group_.rank());
    std::vector<double> all = elements(ddp_.gradient(i));
    const bool sums = plan_.options.gradient_kind == GradientKind::kSum;
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (n == 0 && held_ > 0) break;
      const double gradient = plan_.gradient(step, pass, group_.rank(), i, at + 1 == all.size());
      const double own = n == 0 ? kNan : (sums ? n : factor) * gradient;
      all[at] = (pass == 0 ? 0 : all[at]) + own;
    }
    for (int use = 1; use < uses; ++use) ddp_.mark_ready(i);
    store(all, ddp_.gradient(i));
    ddp_.mark_ready(i);
  }

  void check(int step, const Truth& truth) {
    const std::string where = " in step " + std::to_string(step);
    const StepSummary summary = ddp_.summary();
    const bool is_over = truth.active_ranks == 0;
    const bool looked_at = plan_.options.non_finite != NonFinite::kIgnore;
    const bool steps = truth.samples > 0 && (truth.is_finite || !looked_at);
    expect(summary.samples == truth.samples, "samples" + where);
    expect(summary.metrics[3].sum == truth.metric, "the metric" + where);
    expect(summary.metrics[3].weight == truth.samples, "its weight" + where);
    expect(summary.active_ranks == truth.active_ranks, "active ranks" + where);
    expect(summary.votes[2] == truth.votes, "votes" + where);
    expect(ddp_.agreed(2, Quorum::kAll) == (truth.votes == plan_.world_size), "agreed" + where);
    expect(ddp_.stop_requested() == truth.stop, "stop requests" + where);
    expect(ddp_.is_over() == is_over, "is_over" + where);
    expect(ddp_.should_step() == steps, "should_step" + where);
    if (!truth.is_finite) ++skipped_;
    check_statistics(step);
    const double* scale = ddp_.gradient_scale();
    for (std::size_t i = 0; i < plan_.parameters; ++i) {
      if (plan_.options.unused == UnusedParameters::kZero) {
        expect(ddp_.is_used(i) == truth.is_used[i], "use" + where);
      }
      if (truth.is_used[i] && plan_.options.unused != UnusedParameters::kError) {
        expect(ddp_.is_used(i), "used" + where);
      }
      if (truth.is_finite) check_gradient(i, truth, scale, where);
    }
    if (steps) update(scale);
  }

  void check_statistics(int step) {
    const auto statistics = ddp_.statistics();
    const std::size_t buckets = plan_.world_size > 1 ? ddp_.layout().buckets.size() : 0;
    const auto steps = static_cast<std::uint64_t>(step) + 1;
    expect(statistics.steps == steps, "steps counted");
    expect(statistics.passes == passes_, "passes counted");
    expect(statistics.bucket_launches == steps * buckets, "one all_reduce for each bucket");
    expect(statistics.skipped_steps == skipped_, "skipped steps counted");
  }

  void check_gradient(std::size_t i, const Truth& truth, const double* scale,
                      const std::string& where) {
    const std::vector<double> all = elements(ddp_.gradient(i));
    double precision = precision_of(plan_.dtype(i));
    if (plan_.world_size > 1 && plan_.options.hook) precision = 1.6e-2;
    for (std::size_t at = 0; at < all.size(); ++at) {
      const double wanted = truth.means[i][at + 1 == all.size() ? 1 : 0];
      const double found = all[at] * (scale == nullptr ? 1 : *scale);
      expect(std::abs(found - wanted) <= 4 * precision * truth.magnitudes[i],
             "gradient " + std::to_string(i) + where + ": " + std::to_string(found) + ", not " +
                 std::to_string(wanted));
    }
  }

  // Changes the parameters, so that their fingerprints change.
  void update(const double* scale) {
    for (std::size_t i = 0; i < plan_.parameters; ++i) {
      std::vector<double> value = elements(parameters_[i].value);
      const std::vector<double> gradient = elements(ddp_.gradient(i));
      for (std::size_t at = 0; at < value.size(); ++at) {
        value[at] -= 0.125 * gradient[at] * (scale == nullptr ? 1 : *scale);
      }
      store(value, parameters_[i].value);
    }
  }

  const Plan& plan_;
  ProcessGroup& group_;
  std::vector<float> statistics_;
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<double>> own_;
  std::vector<Parameter> parameters_;
  DistributedDataParallel ddp_;
  double held_ = 0;  // this rank's samples in the step so far
  std::uint64_t passes_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace

TEST_CASE("whatever the options, gradients are the mean over all samples", "[engine][fuzz]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  // For each world size; fewer over backends whose messages take longer.
  const std::uint64_t cases = backend == Backend::kShm ? 200 : 10;
  for (const int world_size : {1, 2, 3, 4}) {
    INFO("over " << to_string(backend));
    test::run_groups(backend, world_size, [&](ProcessGroup& group) {
      for (std::uint64_t number = 0; number < cases; ++number) {
        const Plan plan(1000 * static_cast<std::uint64_t>(world_size) + number, world_size);
        try {
          Trainee(plan, group).run();
        } catch (const std::exception& error) {
          const std::string text = "case " + std::to_string(number) + " of " +
                                   std::to_string(world_size) + " ranks, on rank " +
                                   std::to_string(group.rank()) + ": " + error.what();
          group.abort(text);  // all ranks throw it
          throw std::runtime_error(text);
        }
      }
    });
  }
}
