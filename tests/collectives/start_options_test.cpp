// SPDX-License-Identifier: MIT
//
// What a rank takes from its options and its environment when it starts: timeouts, the world size,
// addresses, the file for its error, and its device.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "ddp/base/error.h"
#include "ddp/collectives/start/device_choice.h"
#include "ddp/store/hash_store.h"
#include "support/files.h"
#include "support/groups.h"
#include "support/scoped_variable.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::error_of;
using test::expect;
using test::ScopedVariable;

TEST_CASE("timeouts come from the options, else from the environment", "[start]") {
  const auto group_with = [](InitOptions options) {
    options.device = DeviceChoice::kCpu;
    options.world_size = 1;
    options.rank = 0;
    return init_process_group(options);
  };
  CHECK(group_with({})->timeout() == 10min);
  STATIC_REQUIRE(kDefaultStartTimeout == 5min);
  const ScopedVariable timeout("DDP_TIMEOUT", "2.5");
  CHECK(group_with({})->timeout() == 2500ms);
  CHECK(group_with({.timeout = 7s})->timeout() == 7s);
  const ScopedVariable start_timeout("DDP_START_TIMEOUT", "soon");
  CHECK_THAT(error_of([&] { (void)group_with({}); }),
             Contains("DDP_START_TIMEOUT='soon' is not a number of seconds"));
  CHECK(group_with({.start_timeout = 1s})->timeout() == 2500ms);
}

TEST_CASE("a world size that contradicts the environment is refused at once", "[start]") {
  const ScopedVariable rank("RANK", "0");
  const ScopedVariable world_size("WORLD_SIZE", "2");
  const ScopedVariable address("MASTER_ADDR", "127.0.0.1");
  const ScopedVariable port("MASTER_PORT", "1");
  CHECK(error_of([] {
          (void)init_process_group({.device = DeviceChoice::kCpu,
                                    .world_size = 7,
                                    .ranks_are_threads = true,
                                    .start_timeout = 1s});
        }) ==
        "[init] InitOptions::world_size is 7, but the environment has WORLD_SIZE=2: leave it out, "
        "or start 7 ranks");
  const auto alone = init_process_group(
      {.device = DeviceChoice::kCpu, .world_size = 1, .ranks_are_threads = true});
  CHECK(alone->world_size() == 1);
}

TEST_CASE("only a process that is a single rank writes the error file", "[start]") {
  const test::TemporaryDirectory folder;
  const ScopedVariable variable("TORCHELASTIC_ERROR_FILE", folder / "error.json");
  InitOptions options{.device = DeviceChoice::kCpu,
                      .rank = 0,
                      .world_size = 2,
                      .store = std::make_shared<HashStore>(),
                      .ranks_are_threads = true,
                      .start_timeout = 100ms};
  CHECK_THROWS_AS(init_process_group(options), TimeoutError);
  CHECK(test::entries_of(folder.path()) == 0);
  options.ranks_are_threads = false;
  CHECK_THROWS_AS(init_process_group(options), TimeoutError);
  CHECK_THAT(test::bytes_of(folder / "error.json"), Contains("1 of 2 ranks are here"));
}

TEST_CASE("tcp needs the address of processes that bring their own store", "[start]") {
  const auto store = std::make_shared<HashStore>();
  for (const std::string address : {"", "127.0.0.1"}) {
    test::run_ranks(2, [&](int rank) {
      const std::string error = error_of([&] {
        const auto group = init_process_group({.backend = Backend::kTcp,
                                               .rank = rank,
                                               .world_size = 2,
                                               .store = store,
                                               .address = address});
        group->barrier().wait();
      });
      if (address.empty()) expect(error.find("give .address or .master") != error.npos, error);
      if (!address.empty()) expect(error.empty(), error);
    });
  }
}

TEST_CASE("the fallback to the CPU is explained once, as a warning if CUDA should work",
          "[start]") {
  const cu::DeviceSurvey no_gpu{.why_none = "no CUDA-capable device is detected"};
  const cu::DeviceSurvey old_driver{.why_none = "the driver is too old", .is_fault = true};
  WorkerEnv rank1;
  rank1.rank = 1;
  const test::StderrCapture capture;
  CHECK(choose_device({}, WorkerEnv(), no_gpu) == kCpuDevice);
  CHECK(choose_device({}, rank1, old_driver) == kCpuDevice);
  CHECK(choose_device({.device = DeviceChoice::kCpu}, WorkerEnv(), old_driver) == kCpuDevice);
  CHECK(choose_device({.backend = Backend::kShm}, WorkerEnv(), old_driver) == kCpuDevice);
  CHECK_THAT(capture.text(), !Contains("warning"));
  CHECK(choose_device({}, WorkerEnv(), old_driver) == kCpuDevice);
  CHECK_THAT(capture.text(),
             Contains("warning: ") && Contains("[init] this process runs on the CPU, since CUDA "
                                               "does not work here: the driver is "
                                               "too old\n"));
}

TEST_CASE("a required GPU that is missing is an error that says why", "[start]") {
  const cu::DeviceSurvey none{.why_none = "the driver is too old", .is_fault = true};
  CHECK_THAT(
      error_of([&] { (void)choose_device({.device = DeviceChoice::kCuda}, WorkerEnv(), none); }),
      Contains("no GPU is visible (the driver is too old)") &&
          Contains("the CPU (InitOptions::device)"));
}

TEST_CASE("work on a GPU that is missing fails with the reason why there is none", "[start]") {
  const cu::DeviceSurvey survey = cu::survey_devices();
  if (survey.count > 0) return;
  CHECK_THAT(error_of([] { const cu::DeviceGuard guard(cuda_device(0)); }),
             Contains(survey.why_none));
}

TEST_CASE("LOCAL_RANK chooses the device", "[start]") {
  WorkerEnv env;
  env.local_rank = 3;
  CHECK(choose_device({}, env, {.count = 4}) == cuda_device(3));
  CHECK_THAT(error_of([&] { (void)choose_device({}, env, {.count = 2}); }),
             Contains("LOCAL_RANK=3, but 2 GPUs are visible"));
  env.shares_gpus = true;
  CHECK(choose_device({}, env, {.count = 2}) == cuda_device(1));
}

TEST_CASE("the only GPU that a rank sees is its own, whatever its LOCAL_RANK", "[start]") {
  WorkerEnv env;
  env.local_rank = 3;
  CHECK(choose_device({}, env, {.count = 1}) == cuda_device(0));
}
