// SPDX-License-Identifier: MIT
#include "all_reduce/open_mpi.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <vector>

#include "ddp/base/error.h"

namespace ddp::bench {
namespace {

constexpr Timeout kPatience = std::chrono::seconds(60);
constexpr Timeout kEndPatience = std::chrono::seconds(10);

std::string companion() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto path = folder / "bench_all_reduce_mpi";
  if (!std::filesystem::exists(path)) throw Error("this build has no mpicxx (libopenmpi-dev)");
  return path.string();
}

// mpirun refuses to run as root, and with more ranks than cores, unless options allow both. It pins
// each of two ranks to a CPU, as it does by default.
std::vector<std::string> command_line(int ranks, std::size_t max_bytes) {
  std::vector<std::string> command = {"/usr/bin/env", "mpirun", "--oversubscribe", "-np",
                                      std::to_string(ranks)};
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  command.push_back(companion());
  command.push_back(std::to_string(max_bytes));
  return command;
}

}  // namespace

OpenMpi::OpenMpi(int ranks, std::size_t max_bytes)
    : mpirun_(command_line(ranks, max_bytes)), version_(next_line()) {}

// mpirun is slow to end, and sometimes does not end at all; then it is killed.
OpenMpi::~OpenMpi() {
  try {
    mpirun_.write_stdin("0 0\n");
    mpirun_.wait(kEndPatience);
  } catch (const std::exception&) {
  }
}

double OpenMpi::microseconds(std::size_t bytes, int calls) {
  mpirun_.write_stdin(std::to_string(bytes) + " " + std::to_string(calls) + "\n");
  return std::stod(next_line());
}

std::string OpenMpi::next_line() {
  mpirun_.wait_until(
      [this](const test::ChildProcess& child) {
        const auto lines = std::count(child.out().begin(), child.out().end(), '\n');
        return static_cast<std::size_t>(lines) > lines_read_;
      },
      kPatience);
  return test::lines_of(mpirun_.out())[lines_read_++];
}

}  // namespace ddp::bench
