// SPDX-License-Identifier: MIT
//
// Tests the distribution's PyTorch: its ranks under ddp-launch, and ours under its torchrun.
#include <catch2/catch.hpp>
#include <regex>

#include "ddp/base/net/socket.h"
#include "support/child_process.h"
#include "support/files.h"

using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::TemporaryDirectory;
using namespace std::chrono_literals;
using Strings = std::vector<std::string>;

namespace {

struct Result {
  int exit_code;
  std::string out;
  std::string err;
};

Result launch(const Strings& argv) {
  ChildProcess job(argv, {.environment = {{"CUDA_VISIBLE_DEVICES", ""},
                                          {"OMP_NUM_THREADS", "1"},
                                          {"GLOO_SOCKET_IFNAME", "lo"},
                                          {"PYTHON_EXEC", DDP_PYTHON},
                                          {"USE_LIBUV", "0"}}});  // Debian's 2.x has none
  const int exit_code = job.wait(100s);
  return {exit_code, job.out(), job.err()};
}

// Runs a command, which must succeed, and returns its stdout.
std::string run(const Strings& argv) {
  const Result result = launch(argv);
  INFO(result.out);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return result.out;
}

bool is_torch_1() {
  return run({DDP_PYTHON, "-c", "import torch; print(torch.__version__)"}).starts_with("1.");
}

// The command line of torchrun. PyTorch 1.13 on Python 3.11 can start workers only if their streams
// go to files.
Strings torchrun(const TemporaryDirectory& logs, const Strings& args) {
  Strings argv = {DDP_TORCHRUN, "--nproc_per_node=2", "--monitor_interval=0.1", "--redirects=1",
                  "--tee=1",    "--log_dir",          logs.path().string(),     "--no_python"};
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

// The command line of a few steps of the main job. The digest of the parameters goes to the file
// `metrics`.
Strings train(const std::string& metrics) {
  return {DDP_TRAIN_PATH, "--device=cpu", "--max-steps=20", "--log-every=0", "--metrics", metrics};
}

std::string digest_in(const std::string& metrics) {
  const std::string text = ddp::test::bytes_of(metrics);
  std::smatch match;
  REQUIRE(std::regex_search(text, match, std::regex("\"params_sha256\":\"([0-9a-f]{64})\"")));
  return match[1];
}

// Runs the main job under a launcher, and returns the digest of its parameters.
std::string digest_after(const Strings& launcher, const TemporaryDirectory& folder) {
  const std::string metrics = (folder / "metrics.jsonl").string();
  Strings argv = launcher;
  const Strings program = train(metrics);
  argv.insert(argv.end(), program.begin(), program.end());
  run(argv);
  return digest_in(metrics);
}

std::string digest_of_ours() {
  const TemporaryDirectory folder;
  return digest_after({DDP_LAUNCH_PATH, "--nproc_per_node=2"}, folder);
}

}  // namespace

TEST_CASE("a PyTorch script runs under ddp-launch as it is", "[torch]") {
  CHECK(run({DDP_LAUNCH_PATH, "--nproc_per_node=2", "--store=worker", DDP_TORCH_SCRIPT}) ==
        "2 ranks, one model\n");
}

TEST_CASE("the main job runs under torchrun like under ddp-launch", "[torch]") {
  const TemporaryDirectory folder;
  CHECK(digest_after(torchrun(folder, {"--standalone"}), folder) == digest_of_ours());
}

TEST_CASE("torchrun restarts the main job after a failure", "[torch]") {
  const TemporaryDirectory folder;
  const std::string script =
      "[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; exec \"$@\"";
  CHECK(
      digest_after(torchrun(folder, {"--standalone", "--max_restarts=1", "sh", "-c", script, "sh"}),
                   folder) == digest_of_ours());
}

// torchrun's agent hosts the store, and the store of 1.x speaks a protocol that ours does not know.
TEST_CASE("the main job runs under torchrun's static rendezvous, or says what to use", "[torch]") {
  const TemporaryDirectory folder;
  const auto port = ddp::Socket::listen({"", 0}).local_endpoint().port;
  const Strings launcher = torchrun(folder, {"--master_port=" + std::to_string(port)});
  if (!is_torch_1()) {
    CHECK(digest_after(launcher, folder) == digest_of_ours());
    return;
  }
  Strings argv = launcher;
  argv.emplace_back(DDP_TRAIN_PATH);
  const Result result = launch(argv);
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.err, Contains("PyTorch 1.x") && Contains("--standalone"));
}

// The clients of 1.x speak that protocol, too.
TEST_CASE("PyTorch 1.x on the agent's store gets an error that says what to use", "[torch]") {
  if (!is_torch_1()) return;
  const Result result = launch({DDP_LAUNCH_PATH, "--nproc_per_node=2", DDP_TORCH_SCRIPT});
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.err, Contains("PyTorch 1.x") && Contains("ddp-launch --store worker"));
}
