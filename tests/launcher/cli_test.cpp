// SPDX-License-Identifier: MIT
//
// Tests the command line of the built ddp-launch.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include <filesystem>

#include "ddp/base/net/socket.h"
#include "support/files.h"
#include "support/launch.h"

using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;
using namespace ddp::test::launch;
using Variables = std::vector<std::pair<std::string, std::string>>;

namespace {

Result launch(const Strings& args, const Variables& environment = {}) {
  return run(command(args), ChildProcess::kDefaultTimeout, {.environment = environment});
}

}  // namespace

TEST_CASE("a torchrun command line runs unchanged", "[launcher][cli]") {
  const Result result =
      launch({"--standalone", "--nnodes=1:1", "--nproc-per-node=2", "--rdzv_backend", "c10d",
              "--monitor_interval=0.1", "--role=trainer", "--no_python", "--", "sh", "-c",
              "echo $RANK $WORLD_SIZE $ROLE_NAME"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "0 2 trainer\n");
}

TEST_CASE("flags may come from PET_ variables", "[launcher][cli]") {
  const Strings script = {"sh", "-c", "echo $WORLD_SIZE $TORCHELASTIC_RUN_ID"};
  const Variables environment = {{"PET_NPROC_PER_NODE", "2"}, {"PET_RDZV_ID", "job-7"}};
  CHECK(launch(script, environment).out == "2 job-7\n");
  Strings args = {"-n1"};
  args.insert(args.end(), script.begin(), script.end());
  CHECK(launch(args, environment).out == "1 job-7\n");
}

TEST_CASE("-np means what it means to mpirun", "[launcher][cli]") {
  CHECK(launch({"-np", "2", "sh", "-c", "echo $WORLD_SIZE"}).out == "2\n");
}

TEST_CASE("unsupported flags are refused in one line, and nothing starts", "[launcher][cli]") {
  for (const Strings& args :
       {Strings{"--nnodes=1:4", "echo"}, Strings{"--rdzv_backend=etcd", "echo"},
        Strings{"--start-method=fork", "echo"}, Strings{"--run-path", "echo"}}) {
    CAPTURE(args);
    const Result result = launch(args);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(lines_of(result.err).size() == 1);
    CHECK_THAT(result.err, Contains(args.front().substr(2, 3)));
  }
}

TEST_CASE("the local rank is an argument only if requested", "[launcher][cli]") {
  const Result result = launch({"-n2", "--show=1", "--pass-local-rank", "echo", "-x"});
  CHECK_THAT(result.out, Contains("--local-rank=1 -x"));
}

TEST_CASE("a module runs under Python", "[launcher][cli]") {
  const TemporaryDirectory folder;
  ddp::test::write_bytes(folder / "python3", "#!/bin/sh\necho python \"$@\"\n");
  std::filesystem::permissions(folder / "python3", std::filesystem::perms::owner_all);
  const Variables path = {{"PATH", folder.path().string() + ":/usr/bin:/bin"}};
  CHECK(launch({"-m", "pkg.train", "--lr=1"}, path).out == "python -u -m pkg.train --lr=1\n");
}

TEST_CASE("with --store worker, rank 0 listens on the port", "[launcher][cli]") {
  ChildProcess child({DDP_LAUNCH_PATH, "--store=worker", "-n2", "sh", "-c",
                      "echo port=$MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE.; read line; exit 0"});
  child.wait_for_output(" False.");
  const int port = std::stoi(child.out().substr(child.out().find('=') + 1));
  const ddp::Socket bound = ddp::Socket::listen({"127.0.0.1", static_cast<std::uint16_t>(port)});
  CHECK(bound.is_open());
  child.write_stdin("\n");
  CHECK(child.wait() == 0);
}

TEST_CASE("a taken port is refused with --store worker, too", "[launcher][cli]") {
  const ddp::Socket taken = ddp::Socket::listen({"", 0});
  const std::string port = std::to_string(taken.local_endpoint().port);
  const Result result = launch({"--store=worker", "--master_port", port, "echo"});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains(":" + port));
}

TEST_CASE("a dry run says what would be started, and starts nothing", "[launcher][cli]") {
  const TemporaryDirectory folder;
  const std::string mark = (folder / "started").string();
  const Result result = launch({"--dry-run", "-n2", "--", "touch", mark});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, Contains("touch " + mark) && Contains("WORLD_SIZE=2") &&
                             Contains("rank 1: RANK=1 LOCAL_RANK=1"));
  CHECK_FALSE(std::filesystem::exists(mark));
  CHECK(launch({"--dry-run", "no-such-program"}).exit_code == 127);
}

TEST_CASE("more ranks than a job can have are refused", "[launcher][cli]") {
  check_refusal(command({"--nnodes=65536", "--node_rank=0", "--dry-run", "-n", "2", "true"}), 2,
                "2 workers on each of 65536 nodes (--nnodes) are more ranks than a job can have, "
                "65536");
}

TEST_CASE("a pipe with a Python file's name is refused, not read", "[launcher][cli]") {
  const TemporaryDirectory folder;
  const std::string pipe = (folder / "train.py").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_refusal(command({pipe}), 126, "it is no regular file");
}
