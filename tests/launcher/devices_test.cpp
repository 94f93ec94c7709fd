// SPDX-License-Identifier: MIT
//
// The GPUs and CPUs that the built ddp-launch assigns to workers, on a machine with fake GPUs.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "support/launch.h"

using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using namespace ddp::test::launch;
using Variables = std::vector<std::pair<std::string, std::string>>;

namespace {

Result run_beside_gpus(const Strings& argv, const Variables& more = {}) {
  Variables environment = {{"LD_LIBRARY_PATH", DDP_FAKE_NVML_FOLDER}, {"FAKE_GPUS", "8"}};
  environment.insert(environment.end(), more.begin(), more.end());
  return run(argv, ChildProcess::kDefaultTimeout, {.environment = environment});
}

Result launch(const Strings& args, const Variables& more = {}) {
  return run_beside_gpus(command(args), more);
}

// The output of each rank, ordered by rank.
Strings lines_by_rank(Strings flags, const std::string& script, const Variables& more = {}) {
  flags.insert(flags.end(), {"--show=all", "sh", "-c", "echo $RANK " + script});
  const Result result = launch(flags, more);
  CHECK(result.exit_code == 0);
  Strings lines;
  for (const std::string& line : lines_of(result.out)) {
    lines.push_back(line.starts_with("rank ") ? line.substr(line.find('|') + 2) : line);
  }
  std::ranges::sort(lines);
  return lines;
}

// Shell text for the CPUs of the current process.
const std::string kOwnCpus = "$(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)";

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES=2,7 gives rank 0 GPU 2", "[launcher][devices]") {
  const Variables two = {{"CUDA_VISIBLE_DEVICES", "2,7"}};
  const Result plan = launch({"-n2", "--dry-run", "true"}, two);
  CHECK(plan.exit_code == 0);
  CHECK_THAT(plan.out,
             Contains("   0           0  GPU 2 ") && Contains("   1           1  GPU 7 "));
  CHECK(lines_by_rank({"-n2"}, "$CUDA_VISIBLE_DEVICES:$CUDA_DEVICE_ORDER", two) ==
        Strings{"0 2,7:", "1 2,7:"});
}

TEST_CASE("--gpus gives each listed GPU a worker", "[launcher][devices]") {
  const Strings expected = {"0 2,7:PCI_BUS_ID", "1 2,7:PCI_BUS_ID"};
  const std::string script = "$CUDA_VISIBLE_DEVICES:$CUDA_DEVICE_ORDER";
  CHECK(lines_by_rank({"--gpus=2,7"}, script) == expected);
  CHECK(lines_by_rank({"--gpus=2,7", "--nproc_per_node=gpu"}, script) == expected);
  const Result plan =
      launch({"--gpus=GPU-fake3,1", "--dry-run", "true"}, {{"CUDA_VISIBLE_DEVICES", "0"}});
  CHECK_THAT(plan.out, Contains("GPU 3 ") && Contains("CUDA_VISIBLE_DEVICES=GPU-fake3,GPU-fake1") &&
                           Contains("remark: --gpus=GPU-fake3,GPU-fake1 overrides "
                                    "CUDA_VISIBLE_DEVICES=0"));
}

TEST_CASE("an impossible --gpus is refused in one line", "[launcher][devices]") {
  const std::pair<Strings, const char*> cases[] = {
      {{"--gpus=2,9", "true"}, "9 does not name a GPU; this host has 0 GPU-fake0, 1 GPU-fake1"},
      {{"--gpus=2,GPU-fake2", "true"}, "GPU-fake2 is named twice"},
      {{"--gpus=2,7", "-n3", "true"}, "2 for 3 workers"},
  };
  for (const auto& [args, text] : cases) {
    CAPTURE(args);
    const Result result = launch(args);
    CHECK(result.exit_code == 2);
    CHECK(lines_of(result.err).size() == 1);
    CHECK_THAT(result.err, Contains(text));
  }
  const Result none = launch({"--gpus=0", "true"}, {{"FAKE_GPUS", "0"}});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("this host has none"));
}

TEST_CASE("an NVML that does not start is quoted", "[launcher][devices]") {
  const Result result = launch({"-n", "gpu", "true"}, {{"FAKE_NVML_ERROR", "18"}});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("NVML does not start: what NVML says (error 18)"));
}

TEST_CASE("an NVML that crashes takes no launcher with it", "[launcher][devices]") {
  const Result result = launch({"-n", "gpu", "true"}, {{"FAKE_NVML_ERROR", "crash"}});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("the process that asks NVML was killed by SIGABRT"));
  CHECK(lines_of(result.err).size() == 1);
  const Result without = launch({"-n2", "true"}, {{"FAKE_NVML_ERROR", "crash"}});
  CHECK(without.exit_code == 0);
}

TEST_CASE("a signal ends the wait for an NVML that hangs, and leaves no process",
          "[launcher][devices]") {
  const Variables hanging = {{"LD_LIBRARY_PATH", DDP_FAKE_NVML_FOLDER},
                             {"FAKE_NVML_ERROR", "hang"}};
  ChildProcess launcher(command({"-n", "gpu", "true"}), {.environment = hanging});
  launcher.wait_for_output("NVML hangs");
  launcher.send_signal(SIGTERM);
  CHECK(launcher.wait(kStopBound) == 128 + SIGTERM);  // waits for all that have its stdout
}

TEST_CASE("GPUs are found although SIGCHLD is ignored", "[launcher][devices]") {
  const Result result =
      run(command({"--gpus=2", "--dry-run", "true"}), ChildProcess::kDefaultTimeout,
          {.environment = {{"LD_LIBRARY_PATH", DDP_FAKE_NVML_FOLDER}, {"FAKE_GPUS", "8"}},
           .ignored_signals = {SIGCHLD}});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("GPU 2 "));
}

TEST_CASE("a signal reaches ddp-launch, not a thread that NVML has started",
          "[launcher][devices]") {
  const Variables gpus = {{"LD_LIBRARY_PATH", DDP_FAKE_NVML_FOLDER}, {"FAKE_GPUS", "2"}};
  ChildProcess launcher(command({"-n", "gpu", "sh", "-c", "echo up; exec sleep 1000"}),
                        {.environment = gpus});
  launcher.wait_until([](const ChildProcess& child) { return child.out() == "up\n"; });
  launcher.send_signal(SIGTERM);
  CHECK(launcher.wait(kStopBound) == 128 + SIGTERM);
  CHECK_THAT(launcher.err(), Contains("SIGTERM: stopping 2 ranks"));
}

TEST_CASE("workers that share GPUs get the variables for it, and the user one remark",
          "[launcher][devices]") {
  const Result result = launch({"--gpus=4", "-n3", "--oversubscribe", "--show=all", "sh", "-c",
                                "echo $NCCL_HOSTID $DDP_OVERSUBSCRIBE"});
  CHECK(result.exit_code == 0);
  CHECK(lines_of(result.err).size() == 1);
  CHECK_THAT(result.err, Contains("workers may share GPUs (--oversubscribe)"));
  CHECK_THAT(result.out, Contains("ddp-rank-0 1") && Contains("ddp-rank-2 1"));
}

TEST_CASE("a worker's threads are its share of the CPUs that ddp-launch may use",
          "[launcher][devices]") {
  const Strings pinned = {"/usr/bin/env", "-u", "OMP_NUM_THREADS",      "taskset",
                          "-c",           "0",  DDP_LAUNCH_PATH,        "-n2",
                          "sh",           "-c", "echo $OMP_NUM_THREADS"};
  const Result result = run_beside_gpus(pinned);
  CHECK(result.out == "1\n");
  CHECK(result.err.empty());
}

TEST_CASE("--bind=core keeps workers on CPUs of their own", "[launcher][devices]") {
  const Strings alone = lines_by_rank({"-n1", "--bind=core"}, kOwnCpus);
  const Result own = run_beside_gpus({"/bin/sh", "-c", "echo 0 " + kOwnCpus});
  CHECK(alone == lines_of(own.out));
  const Result pinned = run_beside_gpus(
      {"/usr/bin/env", "taskset", "-c", "0", DDP_LAUNCH_PATH, "-n2", "--bind=core", "true"});
  CHECK(pinned.exit_code == 2);
  CHECK_THAT(pinned.err, Contains("2 workers need CPUs of their own, but may use 1 (0)"));
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  const Strings both = lines_by_rank({"-n2", "--bind=core"}, kOwnCpus);
  REQUIRE(both.size() == 2);
  CHECK(both[0].substr(2) != both[1].substr(2));
}

TEST_CASE("placement is printed before the workers start, and with --verbose",
          "[launcher][devices]") {
  const Result plan = launch({"--bind=core", "--dry-run", "true"});
  CHECK_THAT(plan.out, Contains("GPU 0 ") && !Contains(" any "));
  const Result verbose = launch({"--bind=core", "-v", "true"});
  CHECK_THAT(verbose.err, Contains(", GPU 0, CPUs 0"));
}
