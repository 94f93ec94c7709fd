// SPDX-License-Identifier: MIT
//
// What `train --trace` and `--step-svg` show: of ranks on CPUs, and of ranks that share a GPU.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/train_runs.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::Arguments;
using test::ChildProcess;
using test::TemporaryDirectory;
using test::train_command;
using test::operator+;

namespace {

// A complete event of a trace, in microseconds.
struct Span {
  int rank = 0;
  int step = 0;
  std::string name;
  double begin = 0;
  double end = 0;
  double ready = 0;  // when the bucket's last gradient was ready
};

std::vector<Span> spans_of(const nlohmann::json& events) {
  std::vector<Span> spans;
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"];
    spans.push_back({event["pid"], event["args"]["step"], event["name"], begin,
                     begin + event["dur"].get<double>(),
                     begin - event["args"].value("queued_us", 0.0)});
  }
  return spans;
}

bool is_bucket(const Span& span) { return span.name.starts_with("bucket"); }

// Checks that the activities of the trainer on a rank do not overlap. On a GPU, their times are
// those of the device, except for the wait for data.
void check_in_order(const std::vector<Span>& spans, int rank) {
  double last = 0;
  for (const Span& span : spans) {
    if (span.rank != rank || is_bucket(span)) continue;
    INFO(span.name << " of step " << span.step);
    CHECK(span.begin >= last - 0.01);  // rounding
    if (span.name == "forward" || span.name == "optimizer") CHECK(span.end > span.begin);
    last = span.end;
  }
}

// Checks that no rank has a bucket's sum before all ranks have its gradients.
void check_one_clock(const std::vector<Span>& spans) {
  std::map<std::pair<int, std::string>, double> last_ready;
  for (const Span& span : spans) {
    double& last = last_ready[{span.step, span.name}];
    last = std::max(last, span.ready);
  }
  for (const Span& span : spans) {
    if (!is_bucket(span)) continue;
    // On a GPU two conversions of its clock are compared. Each is late by the time that the host
    // took to notice an event: microseconds, or more on a busy host.
    const double tolerance = test::kRanksShareGpu ? 1000 : 0.01;  // rounding
    INFO(span.name << " of step " << span.step << " on rank " << span.rank);
    CHECK(span.end >= last_ready[{span.step, span.name}] - tolerance);
    CHECK(span.ready <= span.begin + tolerance);
  }
}

}  // namespace

TEST_CASE("a trace shows the steps of all ranks on one clock", "[trace]") {
  const TemporaryDirectory directory;
  const std::string trace = directory / "trace.json";
  const std::string svg = directory / "step.svg";
  const test::TrainingSet set;
  const int ranks = test::several_ranks().back();
  const auto begin = Clock::now();
  ChildProcess job(train_command(
      ranks, set.flags() + Arguments{"--model", "lenet5", "--max-steps", test::steps(20, 5),
                                     "--trace", trace, "--step-svg", svg}));
  REQUIRE(job.wait(100s) == 0);
  const double run = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  const std::vector<Span> spans = spans_of(nlohmann::json::parse(test::bytes_of(trace)));
  std::map<std::pair<int, std::string>, int> counts;
  for (const Span& span : spans) {
    ++counts[{span.rank, span.name}];
    CHECK(span.begin >= 0);
    CHECK(span.end >= span.begin);
    CHECK(span.end <= run);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (const char* name : {"data", "forward", "backward", "optimizer", "bucket 0", "bucket 3"}) {
      INFO(name << " of rank " << rank);
      CHECK(counts[{rank, name}] == std::stoi(test::steps(20, 5)));
    }
    check_in_order(spans, rank);
  }
  check_one_clock(spans);
  CHECK_THAT(test::bytes_of(svg),
             Catch::StartsWith("<svg ") && Catch::Contains("rank " + std::to_string(ranks - 1)));
}
