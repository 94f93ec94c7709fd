// SPDX-License-Identifier: MIT
#include "launcher/prove/recorded_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/rank_list.h"
#include "ddp/base/step_sketch.h"
#include "ddp/base/system/process_status.h"
#include "launcher/launch_error.h"

namespace ddp::prove {
namespace {

volatile std::sig_atomic_t running_job = 0;

void forward(int signal_number) {
  if (running_job > 0) ::kill(static_cast<pid_t>(running_job), signal_number);
}

std::vector<std::string> launch_command(int ranks, const Options& options) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string launch = self.parent_path() / "ddp-launch";
  if (::access(launch.c_str(), X_OK) != 0) {
    throw launcher::LaunchError(fmt::format("cannot run '{}': {}", launch, error_text(errno)),
                                launcher::kNotFoundExitCode);
  }
  std::vector<std::string> command = launch_arguments(ranks, options);
  command.insert(command.begin(), launch);
  return command;
}

// In the child.
[[noreturn]] void execute(std::vector<std::string> command, pid_t parent) {
  if (!die_with(parent, SIGTERM)) ::_exit(EXIT_FAILURE);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDOUT_FILENO);
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(launcher::kNotFoundExitCode);
}

// The steps of one run, in memory that goes with this process, however it ends.
class StepFile {
 public:
  StepFile() : memory_(::memfd_create("ddp-steps", MFD_CLOEXEC)) {
    if (!memory_.is_open()) throw SystemError("memfd_create", errno);
  }

  // Under which other processes of this user can open it.
  [[nodiscard]] std::string path() const {
    return fmt::format("/proc/{}/fd/{}", ::getpid(), memory_.get());
  }

  [[nodiscard]] Run read(int ranks) const {
    Run run{.ranks = ranks, .steps = {}};
    std::ifstream file(path());
    for (std::string line; std::getline(file, line);) {
      run.is_cut_off = line == kCutOff;
      if (!run.is_cut_off) run.steps.push_back(parse_step_sketch(line));
    }
    // Engines in threads of their own make their steps in any order.
    if (!run.steps.empty()) run.first_engine = run.steps.front().engine;
    std::ranges::stable_sort(run.steps, {}, &StepSketch::engine);
    return run;
  }

 private:
  FileDescriptor memory_;
};

// Returns the exit code, or 128 + the signal. Ctrl-C reaches ddp-launch, too, which is waited for.
int run(const std::vector<std::string>& command) {
  const ReapableChildren reapable;
  const pid_t self = ::getpid();
  const pid_t job = ::fork();
  if (job < 0) throw SystemError("fork", errno);
  if (job == 0) execute(command, self);
  running_job = job;
  const auto ctrl_c = std::signal(SIGINT, SIG_IGN);
  const auto stop = std::signal(SIGTERM, forward);
  const std::optional<int> status = wait_for_child(job);
  const int error = errno;
  std::signal(SIGTERM, stop);
  std::signal(SIGINT, ctrl_c);
  running_job = 0;
  if (!status) throw SystemError("waitpid", error);
  return exit_code_of(*status);
}

}  // namespace

Run record_run(int ranks, const Options& options, Start start) {
  const StepFile file;
  ::setenv("DDP_PROVE_FILE", file.path().c_str(), 1);
  ::setenv("DDP_PROVE_STEPS", std::to_string(options.steps).c_str(), 1);
  ::setenv("DDP_PROVE_NUDGE", start == Start::kNudged ? "1" : "0", 1);
  const int exit_code = run(launch_command(ranks, options));
  if (exit_code != 0) {
    throw launcher::LaunchError(
        fmt::format("the run with {} ended with exit code {}", counted(ranks, "rank"), exit_code),
        exit_code == kDiffer ? kFailed : exit_code);
  }
  Run result = file.read(ranks);
  if (result.steps.empty()) {
    throw launcher::LaunchError(fmt::format(
        "the run with {} made no step of a ddp::DistributedDataParallel (has it resumed from a "
        "checkpoint of the run before?)",
        counted(ranks, "rank")));
  }
  return result;
}

}  // namespace ddp::prove
