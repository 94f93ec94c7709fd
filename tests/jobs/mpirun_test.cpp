// SPDX-License-Identifier: MIT
//
// Runs workers and launchers under this machine's mpirun, if it is Open MPI's.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/files.h"
#include "support/train_job.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::test::ChildProcess;
using ddp::test::TemporaryDirectory;
using ddp::test::TrainJob;
using Strings = std::vector<std::string>;

namespace {

constexpr auto kTime = 100s;

// mpirun refuses to run as root unless two variables allow it. The number of threads, which mpirun
// does not set, influences how sums are rounded.
const ChildProcess::Options kOptions = {.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                                        {"OMP_NUM_THREADS", "1"}}};

bool has_open_mpi() {
  ChildProcess version({"/bin/sh", "-c", "mpirun --version"});
  const bool is_there = version.wait() == 0 && version.out().find("Open MPI") != std::string::npos;
  if (!is_there) WARN("SKIPPED: no mpirun of Open MPI (package openmpi-bin)");
  return is_there;
}

// A new folder for the files that mpirun itself makes. Without one of its own, an mpirun of Open
// MPI 4 fails now and then if another one of this user starts or ends at the same moment, since all
// of them make and remove one folder in /tmp.
std::string session_folder() {
  static const TemporaryDirectory parent;
  static int jobs = 0;
  const std::filesystem::path folder = parent / std::to_string(jobs++);
  std::filesystem::create_directory(folder);
  return folder;
}

Strings mpirun(int processes, const Strings& rest = {}) {
  Strings command = {"/usr/bin/env", "OMPI_MCA_orte_tmpdir_base=" + session_folder(),
                     "mpirun",       "--oversubscribe",
                     "-np",          std::to_string(processes)};
  command.insert(command.end(), rest.begin(), rest.end());
  return command;
}

// Trains, and returns the parameters' fingerprint.
std::string run(const Strings& starter) {
  const TrainJob job;
  ChildProcess process(job.command(starter), kOptions);
  const int exit_code = process.wait(kTime);
  INFO(process.err());
  REQUIRE(exit_code == 0);
  REQUIRE(job.params_sha256().size() == 64);
  return job.params_sha256();
}

}  // namespace

TEST_CASE("mpirun starts workers without flags", "[mpirun]") {
  if (!has_open_mpi()) return;
  CHECK(run(mpirun(2)) == run({DDP_LAUNCH_PATH, "-n", "2"}));
}

TEST_CASE("mpirun starts launchers without flags, each of them a node", "[mpirun]") {
  if (!has_open_mpi()) return;
  CHECK(run(mpirun(2, {DDP_LAUNCH_PATH, "-n", "2"})) == run({DDP_LAUNCH_PATH, "-n", "4"}));
}

TEST_CASE("two jobs of mpirun run side by side", "[mpirun]") {
  if (!has_open_mpi()) return;
  const TrainJob first;
  const TrainJob second;
  ChildProcess one(first.command(mpirun(2)), kOptions);
  ChildProcess other(second.command(mpirun(2)), kOptions);
  const int codes[] = {one.wait(kTime), other.wait(kTime)};
  INFO(one.err() << other.err());
  CHECK(codes[0] == 0);
  CHECK(codes[1] == 0);
  CHECK(first.params_sha256().size() == 64);
  CHECK(first.params_sha256() == second.params_sha256());
}

TEST_CASE("a worker's failure under mpirun ends all launchers with the same verdict", "[mpirun]") {
  if (!has_open_mpi()) return;
  const std::string worker = "[ $RANK = 3 ] && exit 5; sleep 1000";
  ChildProcess job(mpirun(2, {DDP_LAUNCH_PATH, "-n", "2", "sh", "-c", worker}), kOptions);
  const int exit_code = job.wait(kTime);
  INFO(job.err());
  CHECK(exit_code == 5);
  CHECK_THAT(job.err(), Contains("exited with code 5") && Contains("3 other ranks stopped"));
}

TEST_CASE("a single program under mpirun is a world of one", "[mpirun]") {
  if (!has_open_mpi()) return;
  CHECK(run(mpirun(1)) == run({DDP_LAUNCH_PATH, "-n", "1"}));
}
