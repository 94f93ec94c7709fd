// SPDX-License-Identifier: MIT
//
// How the engine keeps replicas equal: fingerprints that find those that diverge, and buffers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/child_process.h"
#include "support/engine_trainee.h"
#include "support/groups.h"
#include "support/stderr_capture.h"

using namespace ddp;
using test::contains;
using test::errors_of_ranks;
using test::expect;
using test::run_on_all_backends;
using Trainee = test::EngineTrainee;

namespace {

// How often a job of four steps warns that its first step changed no parameter, if an optimizer
// steps before those steps that `steps_before` says.
std::size_t warnings_of_first_step(const DdpOptions& options,
                                   const std::function<bool(int)>& steps_before) {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Trainee trainee(group, options);
    for (int step = 1; step <= 4; ++step) {
      if (steps_before(step)) trainee.model.values[1][0] += 0.5;
      trainee.step(1);
    }
  });
  const std::vector<std::string> lines = test::lines_of(captured.text());
  return static_cast<std::size_t>(std::ranges::count_if(lines, [](const std::string& line) {
    return contains(line, "[ddp] step 1 changed no parameter");
  }));
}

}  // namespace

TEST_CASE("replicas that diverge are an error that names them", "[engine][fingerprint]") {
  for (const int world_size : {2, 3, 4}) {
    std::vector<int> steps(static_cast<std::size_t>(world_size), 0);
    const auto errors = errors_of_ranks(world_size, [&](ProcessGroup& group) {
      Trainee trainee(group, {.fingerprint_every = 4});
      for (int step = 0; step < 20; ++step) {
        if (step == 6 && group.rank() == 1) {  // one bit
          trainee.model.values[1][3] = std::nextafter(trainee.model.values[1][3], 2.0);
        }
        trainee.step(1);
        ++steps[static_cast<std::size_t>(group.rank())];
      }
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error, Catch::Contains("replicas have diverged: step 8: parameter 'fc1.bias' of "
                                        "rank 1"));
    }
    for (const int each : steps) CHECK(each == 7 * static_cast<int>(test::backends().size()));
  }
}

TEST_CASE("ranks that go on after different numbers of steps are an error that names them",
          "[engine][fingerprint][resume]") {
  const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    trainee.ddp.continue_after(group.rank() == 1 ? 100 : 50);
    for (int step = 0; step < 8; ++step) trainee.step(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("[ddp] ranks go on after different numbers of steps "
                                      "(continue_after): rank 0 after 50, rank 1 after 100"));
  }
}

TEST_CASE("replicas that diverge in a training shorter than the period are found",
          "[engine][fingerprint]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    Trainee trainee(group, {});
    for (int step = 0; step < 8; ++step) {
      if (step == 4 && group.rank() == 1) trainee.model.values[1][3] += 1;
      trainee.step(1);
    }
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("step 8: parameter"));
}

TEST_CASE("equal replicas cause no error", "[engine][fingerprint]") {
  for (const int world_size : {1, 3}) {
    run_on_all_backends(world_size, [](ProcessGroup& group) {
      std::vector<float> statistics(3, 1);
      Trainee trainee(
          group, {.buffers = {{"running_mean", buffer_of(statistics)}}, .fingerprint_every = 1});
      for (int step = 0; step < 5; ++step) {
        std::ranges::fill(statistics, static_cast<float>(group.rank() + step));  // differ by rank
        trainee.step(1);
        trainee.model.values[0][0] += trainee.ddp.gradient(0).as<double>()[0];
        if (step == 2) trainee.ddp.broadcast_buffers();
      }
    });
  }
}

TEST_CASE("a second backward pass before the optimizer's step is warned of",
          "[engine][fingerprint]") {
  const auto each_step = [](int step) { return step > 1; };
  const auto each_second_step = [](int step) { return step % 2 == 1 && step > 1; };
  CHECK(warnings_of_first_step({}, each_step) == 0);
  CHECK(warnings_of_first_step({}, each_second_step) == 1);
  CHECK(warnings_of_first_step({.fingerprint_every = 1}, each_second_step) == 1);
  CHECK(warnings_of_first_step({.fingerprint_every = 0}, each_second_step) == 0);  // not looked at
  // A first step that is skipped changes nothing.
  CHECK(warnings_of_first_step({.non_finite = NonFinite::kSkip}, each_second_step) == 0);
}

TEST_CASE("a first step without samples need not change a parameter", "[engine][fingerprint]") {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Trainee trainee(group, {.nominal_samples = 1});
    for (int step = 1; step <= 4; ++step) {
      trainee.step(1, {.samples = step == 1 ? 0 : 1});
      expect(trainee.ddp.should_step() == (step > 1), "without samples, no step");
      if (step > 1) trainee.model.values[1][0] += 0.5;
    }
  });
  CHECK_THAT(captured.text(), !Catch::Contains("changed no parameter"));
}

TEST_CASE("a buffer that is not rank 0's after a broadcast is an error that names it",
          "[engine][fingerprint]") {
  const auto errors = errors_of_ranks(3, [](ProcessGroup& group) {
    std::vector<float> mean(3, 1);
    std::vector<float> variance(3, 2);
    const bool is_wrong = group.rank() == 1;  // its two buffers are one
    Trainee trainee(group, {.buffers = {{"mean", buffer_of(is_wrong ? variance : mean)},
                                        {"variance", buffer_of(variance)}}});
    trainee.step(1);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("replicas have diverged: step 1: buffer 'mean' of rank 1 (") &&
                   Catch::Contains("differs from that of rank 0"));
  }
}

TEST_CASE("buffers are sent on demand, at every forward, or never", "[engine][buffers]") {
  for (const BufferSync sync :
       {BufferSync::kOnDemand, BufferSync::kEveryForward, BufferSync::kNever}) {
    run_on_all_backends(2, [&](ProcessGroup& group) {
      std::vector<float> statistics(3, static_cast<float>(group.rank()));
      Trainee trainee(group,
                      {.buffers = {{"running_mean", buffer_of(statistics)}}, .buffer_sync = sync});
      expect(statistics[2] == 0, "rank 0's at construction");
      const auto own = static_cast<float>(10 + group.rank());
      const auto sent = [&](const std::function<void()>& call) {
        std::ranges::fill(statistics, own);
        call();
        return statistics[0] == 10;
      };
      const bool is_root = group.rank() == 0;
      expect(sent([&] { trainee.ddp.begin_forward(); }) ==
                 (is_root || sync == BufferSync::kEveryForward),
             "begin_forward");
      expect(
          sent([&] { trainee.ddp.broadcast_buffers(); }) == (is_root || sync != BufferSync::kNever),
          "broadcast_buffers");
    });
  }
}

TEST_CASE("a large buffer is rank 0's as soon as broadcast_buffers has returned",
          "[engine][buffers]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    std::vector<float> table(300000);  // too large to be packed with others
    Trainee trainee(group, {.buffers = {{"table", buffer_of(table)}}});
    for (int round = 0; round < 20; ++round) {
      std::ranges::fill(table, static_cast<float>(10 * round + group.rank()));
      trainee.ddp.broadcast_buffers();
      const auto roots = static_cast<float>(10 * round);
      expect(table.front() == roots && table.back() == roots, "rank 0's from end to end");
    }
  });
}

TEST_CASE("buffers on different devices do not make models different", "[engine][buffers]") {
  const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
    std::vector<float> statistics(3);
    Buffer buffer = buffer_of(statistics);
    buffer.device = cuda_device(group.rank());  // the group refuses it
    Trainee trainee(group, {.buffers = {{"running_mean", buffer}}});
  });
  for (const std::string& error : errors) CHECK_FALSE(contains(error, "models differ"));
}
