// SPDX-License-Identifier: MIT
//
// Checks that reductions run during backward, by the begin and end of each reduction, and by the
// time of a step. The same checks must fail if overlap is switched off.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

namespace {

constexpr std::size_t kLayers = 8;
constexpr std::size_t kElements = 1 << 21;  // per layer; each layer is a bucket
constexpr int kSteps = 15;

struct Step {
  double backward = 0;       // seconds, like the following fields
  double communication = 0;  // all reductions together
  double last_bucket = 0;
  double total = 0;
  std::size_t hidden = 0;  // reductions that ended before backward did
};

double seconds(const Interval& interval) { return Seconds(interval.end - interval.begin).count(); }

Seconds communication(const StepTimes& times) {
  Seconds all(0);
  for (const StepTimes::Bucket& bucket : times.buckets) {
    all += bucket.reduction->end - bucket.reduction->begin;
  }
  return all;
}

// Combines the times of all ranks into one step. The ranks are threads and so share a clock. The
// step begins when the last rank has begun, since ranks may share processors and a step waits for
// the slowest backward.
Step measured(const std::vector<StepTimes>& ranks) {
  Interval backward = {ranks.front().begin, ranks.front().backward_end};
  Clock::time_point end = ranks.front().end;
  for (const StepTimes& times : ranks) {
    backward.begin = std::max(backward.begin, times.begin);
    backward.end = std::max(backward.end, times.backward_end);
    end = std::max(end, times.end);
  }
  Step step;
  step.backward = seconds(backward);
  step.total = seconds({backward.begin, end});
  step.communication = communication(ranks.front()).count();
  for (const StepTimes::Bucket& bucket : ranks.front().buckets) {
    step.hidden += bucket.reduction->end < backward.end ? 1 : 0;
  }
  step.last_bucket = seconds(ranks.front().buckets.back().reduction.value());
  return step;
}

// A model whose backward takes `layer_time` per layer without using the CPU, as on a GPU.
class Trainer {
 public:
  Trainer(ProcessGroup& group, bool overlap)
      : values_(kLayers, std::vector<float>(kElements)),
        ddp_(group.shared_from_this(), parameters(),
             {.buckets = {.bucket_bytes_cap = kElements * sizeof(float), .overlap = overlap},
              .record_times = true}) {}

  StepTimes step(Seconds layer_time) {
    (void)ddp_.begin_step();
    for (std::size_t i = kLayers; i-- > 0;) {
      std::this_thread::sleep_for(layer_time);
      ddp_.mark_ready(i);
    }
    ddp_.wait();
    return ddp_.times();
  }

 private:
  std::vector<Parameter> parameters() {
    std::vector<Parameter> result;
    for (std::size_t i = 0; i < kLayers; ++i) {
      result.push_back({"layer" + std::to_string(i), {kElements}, buffer_of(values_[i])});
    }
    return result;
  }

  std::vector<std::vector<float>> values_;
  DistributedDataParallel ddp_;
};

// Why the step did not hide its communication; empty if it did.
std::string refutation(const Step& step) {
  const double longer = std::max(step.backward, step.communication);
  const double shorter = std::min(step.backward, step.communication);
  const double noise = (shorter - step.last_bucket) / 2;
  if (step.hidden < kLayers / 2) {
    return std::to_string(step.hidden) + " reductions ended before backward";
  }
  if (step.total > longer + step.last_bucket + noise) {
    return "a step of " + std::to_string(1000 * step.total) +
           " ms is not the longer of backward (" + std::to_string(1000 * step.backward) +
           " ms) and communication (" + std::to_string(1000 * step.communication) +
           " ms) with the last bucket";
  }
  return "";
}

// The number of steps that hid their communication. The reasons of the others are added to
// `reasons`.
int count_hiding(const std::vector<Step>& steps, std::string& reasons) {
  int hiding = 0;
  for (const Step& step : steps) {
    const std::string why_not = refutation(step);
    if (why_not.empty()) ++hiding;
    reasons += why_not + "\n";
  }
  return hiding;
}

// Why most steps did not hide their communication; empty if they did.
std::string refutation(const std::vector<Step>& steps) {
  std::string reasons;
  const int hiding = count_hiding(steps, reasons);
  return 2 * hiding > kSteps ? "" : reasons;  // a busy machine may spoil a few
}

struct Measurement {
  std::vector<Step> on;  // with overlap
  std::vector<Step> off;
};

Measurement measure() {
  constexpr int kRanks = 2;
  std::vector<std::vector<StepTimes>> on_times(kSteps, std::vector<StepTimes>(kRanks));
  auto off_times = on_times;
  test::run_groups(Backend::kShm, kRanks, [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    Trainer overlapping(group, true);
    Trainer waiting(group, false);
    // Backward takes a little longer than communication, where overlap matters most.
    Seconds layer_time(2ms);
    for (int i = 0; i < 3; ++i) {
      layer_time = 1.25 * communication(waiting.step(layer_time)) / kLayers;
    }
    layer_time = std::clamp(layer_time, Seconds(1ms), Seconds(20ms));
    for (std::size_t i = 0; i < kSteps; ++i) {
      on_times[i][rank] = overlapping.step(layer_time);
      off_times[i][rank] = waiting.step(layer_time);
    }
  });
  Measurement result;
  for (std::size_t i = 0; i < kSteps; ++i) {
    result.on.push_back(measured(on_times[i]));
    result.off.push_back(measured(off_times[i]));
  }
  return result;
}

// What the times show that should not be; empty if all is well.
std::string contradiction(Measurement measurement) {
  const std::string with_overlap = refutation(measurement.on);
  if (!with_overlap.empty()) return "with overlap: " + with_overlap;
  for (Step& step : measurement.off) step.hidden = kLayers;  // so that only times matter
  if (refutation(measurement.off).empty()) return "the time of a step does not show overlap";
  return "";
}

}  // namespace

TEST_CASE("reductions are hidden behind backward only if overlap is on", "[overlap]") {
  std::string why_not = "not measured";
  for (int attempt = 0; attempt < 3 && !why_not.empty(); ++attempt) {  // the machine may be busy
    const Measurement measurement = measure();
    // No load of the machine excuses these two.
    for (const Step& step : measurement.off) REQUIRE(step.hidden == 0);
    REQUIRE(!refutation(measurement.off).empty());
    why_not = contradiction(measurement);
  }
  CHECK(why_not == "");
}
