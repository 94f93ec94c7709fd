// SPDX-License-Identifier: MIT
//
// For tests of the built ddp-launch with shells as workers. Time bounds are five times the promise.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/files.h"

namespace ddp::test::launch {

using Strings = std::vector<std::string>;
using ddp::test::last_line;

constexpr Timeout kRefusalBound{5000};
constexpr Timeout kStopBound{25000};

inline Strings command(const Strings& args) {
  Strings argv = {DDP_LAUNCH_PATH};
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

// The command ddp-launch [flags] -- sh -c SCRIPT.
inline Strings shell(Strings flags, const std::string& script) {
  flags.insert(flags.end(), {"--", "sh", "-c", script});
  return command(flags);
}

struct Result {
  int exit_code;
  std::string out;
  std::string err;
};

inline Result run(const Strings& argv, Timeout timeout = ChildProcess::kDefaultTimeout,
                  const ChildProcess::Options& options = {}) {
  ChildProcess child(argv, options);
  const int exit_code = child.wait(timeout);
  return {exit_code, child.out(), child.err()};
}

// Writes a file with this text and mode; returns its path.
inline std::string write_file(const std::filesystem::path& path, const std::string& text,
                              mode_t mode) {
  write_bytes(path, text);
  ::chmod(path.c_str(), mode);
  return path.string();
}

// One of two launchers that seem to be started on this host by the same mpirun. They meet at this
// port of the loopback address.
inline ChildProcess launch_node(int node, std::uint16_t port, const Strings& argv) {
  return ChildProcess(argv, {.environment = {{"PMI_RANK", std::to_string(node)},
                                             {"PMI_SIZE", "2"},
                                             {"MPI_LOCALRANKID", std::to_string(node)},
                                             {"MPI_LOCALNRANKS", "2"},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", std::to_string(port)}}});
}

// Checks that ddp-launch refuses these arguments: with one line on stderr, quickly, and without
// starting anything.
inline void check_refusal(const Strings& argv, int exit_code, const std::string& text) {
  CAPTURE(argv);
  const Result result = run(argv, kRefusalBound);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  CHECK(lines_of(result.err).size() == 1);
  CHECK_THAT(result.err,
             Catch::Matchers::StartsWith("ddp-launch: ") && Catch::Matchers::Contains(text));
}

// The numbers in every "pid=1." of the workers' output.
inline std::vector<pid_t> pids_in(const std::string& text, const std::string& name = "pid") {
  std::vector<pid_t> pids;
  const std::regex pattern(name + "=([0-9]+)\\.");
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    pids.push_back(std::stoi((*at)[1]));
  }
  return pids;
}

// Waits until the workers have written `count` pids to stderr, and returns them.
inline std::vector<pid_t> wait_for_pids(ChildProcess& child, std::size_t count) {
  child.wait_until([count](const ChildProcess& c) { return pids_in(c.err()).size() >= count; });
  return pids_in(child.err());
}

inline void check_all_gone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    CAPTURE(pid);
    CHECK(wait_until_gone(pid, kStopBound));
  }
}

// A worker that has a child.
inline const std::string kSleepers = "sleep 1000 & echo pid=$$. pid=$!. >&2; wait";

// A worker and its child, which has left the worker's process group; both ignore SIGTERM.
inline const std::string kStubborn =
    "trap '' TERM; setsid sleep 1000 & echo pid=$$. pid=$!. >&2; sleep 1000; sleep 1000";

// A worker, a child, an orphaned grandchild, and a process with a session of its own. They also
// print the agent's pid.
inline const std::string kFamily =
    "say='echo pid=$$. >&2; exec sleep 1000'; echo agent=$PPID. >&2; (sh -c \"$say\" &); "
    "setsid sh -c \"(sh -c '$say' &); $say\" & sh -c \"$say\" & echo pid=$$. >&2; wait";
inline constexpr std::size_t kFamilySize = 5;

}  // namespace ddp::test::launch
