// SPDX-License-Identifier: MIT
//
// Ranks that read the same samples compute the same gradients, which the engine tells.
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/engine.h"
#include "support/stderr_capture.h"

namespace ddp {
namespace {

struct Rank {
  double gradient;
  double samples = 1;       // in the first step
  double later = gradient;  // the gradient in the other steps
};

void run_job(const std::vector<Rank>& ranks, UnusedParameters unused) {
  test::run_on_all_backends(static_cast<int>(ranks.size()), [&](ProcessGroup& group) {
    const Rank& own = ranks[static_cast<std::size_t>(group.rank())];
    test::Model model(group.rank());
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.nominal_samples = 1, .unused = unused});
    for (int step = 0; step < 5; ++step) {
      (void)ddp.begin_step({.samples = step == 0 ? own.samples : 1.0});
      for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
        test::write_gradient(ddp, i, step == 0 ? own.gradient : own.later);
      }
      test::mark_all(ddp);
      ddp.wait();
    }
  });
}

// The lines about equal gradients that `job` logs.
template <class Job>
std::vector<std::string> lines_of(const Job& job) {
  const test::StderrCapture captured;
  job();
  std::vector<std::string> lines;
  for (const std::string& line : test::lines_of(captured.text())) {
    if (line.find("the same gradients") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

// Those of five steps, on each backend.
std::vector<std::string> lines_of_job(const std::vector<Rank>& ranks,
                                      UnusedParameters unused = UnusedParameters::kError) {
  return lines_of([&] { run_job(ranks, unused); });
}

}  // namespace

TEST_CASE("ranks that compute the same gradients are named once", "[engine][data]") {
  const auto lines = lines_of_job({{1}, {5}, {2}, {5}});
  CHECK(lines.size() == test::backends().size());
  for (const std::string& line : lines) {
    CHECK_THAT(line, Catch::Contains("ranks 1, 3 had exactly the same gradients in the first "
                                     "two steps: do they read the same samples?"));
  }
}

TEST_CASE("no rank is named whose gradients differ, are zero, or come from no samples",
          "[engine][data]") {
  CHECK(lines_of_job({{1}, {2}, {3}}).empty());
  CHECK(lines_of_job({{0}, {0}, {3}}).empty());
  CHECK(lines_of_job({{0}, {0}}, UnusedParameters::kZero).empty());
  CHECK(lines_of_job({{0}, {0}}, UnusedParameters::kStatic).empty());
  CHECK(lines_of_job({{3, 0}, {3, 0}, {3}}).empty());
  CHECK(lines_of_job({{3, 1, 4}, {3, 1, 5}}).empty());  // equal by chance in one step
}

TEST_CASE("gradients that are equal by their nature do not stand for those of the whole model",
          "[engine][data]") {
  CHECK(lines_of([] {
          test::run_on_all_backends(2, [](ProcessGroup& group) {
            // As with an L1 loss: while all outputs are too small, a bias has the gradient -1.
            std::vector<double> weight(16), bias(1);
            DistributedDataParallel ddp(
                group.shared_from_this(),
                {{"weight", {16}, buffer_of(weight)}, {"bias", {1}, buffer_of(bias)}},
                {.nominal_samples = 1});
            for (int step = 0; step < 5; ++step) {
              (void)ddp.begin_step();
              test::write_gradient(ddp, 1, -1);
              test::write_gradient(ddp, 0, 0.1 * (group.rank() + 1));
              test::mark_all(ddp);
              ddp.wait();
            }
          });
        }).empty());
}

TEST_CASE("a parameter that a rank did not use has no gradient that it could share with others",
          "[engine][data]") {
  CHECK(lines_of([] {
          test::run_on_all_backends(3, [](ProcessGroup& group) {
            std::vector<double> used(10), unused(500);
            DistributedDataParallel ddp(
                group.shared_from_this(),
                {{"used", {10}, buffer_of(used)}, {"unused", {500}, buffer_of(unused)}},
                {.nominal_samples = 1, .unused = UnusedParameters::kZero});
            for (int step = 0; step < 5; ++step) {
              (void)ddp.begin_step();
              if (group.rank() == 2) {
                test::write_gradient(ddp, 1, step + 1);
                ddp.mark_ready(1);
              }
              test::write_gradient(ddp, 0, step + 0.1 * group.rank());
              ddp.mark_ready(0);
              ddp.wait();
            }
          });
        }).empty());
}

TEST_CASE("a rank that reads another one's part of the data is found in the first step",
          "[engine][data]") {
  struct Batch {  // what a DataLoader's tells
    std::int64_t count = 1;
    std::int64_t epoch = 0;
    int rank = 0;
    int world_size = 2;
  };
  const auto errors = [](const Batch& on_rank1) {
    std::vector<std::string> all;
    test::run_on_all_backends(2, [&](ProcessGroup& group) {
      test::Model model(group.rank());
      const std::string error = test::error_of([&] {
        DistributedDataParallel ddp(group.shared_from_this(), model.parameters);
        (void)ddp.begin_step(step_options(group.rank() == 0 ? Batch() : on_rank1));
        test::mark_all(ddp);
        ddp.wait();
      });
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      if (!error.empty()) all.push_back(error);
    });
    return all;
  };
  const std::vector<std::string> found = errors({.rank = 0});
  CHECK(found.size() == 2 * test::backends().size());
  for (const std::string& error : found) {
    CHECK_THAT(error, Catch::Contains("[ddp] rank 1 got rank 0's part of the data: give the "
                                      "sampler this group's rank()"));
  }
  CHECK(errors({.rank = 1}).empty());
  CHECK(errors({.rank = 0, .world_size = 1}).empty());  // each rank has data of its own
}

}  // namespace ddp
