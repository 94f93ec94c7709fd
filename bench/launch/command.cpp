// SPDX-License-Identifier: MIT
#include "launch/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "ddp/base/error.h"

namespace ddp::bench {
namespace {

class NoOutput {
 public:
  NoOutput() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ~NoOutput() { ::posix_spawn_file_actions_destroy(&actions_); }
  NoOutput(const NoOutput&) = delete;
  NoOutput& operator=(const NoOutput&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

pid_t spawn(const std::vector<std::string>& command, const NoOutput& output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], output.get(), nullptr, arguments.data(), environ);
  if (error != 0) throw SystemError("cannot start " + command[0], error);
  return pid;
}

}  // namespace

double run_milliseconds(const std::vector<std::string>& command) {
  const NoOutput output;
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = spawn(command, output);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw SystemError("cannot wait for " + command[0], errno);
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  if (status != 0) throw Error(command[0] + " failed with wait status " + std::to_string(status));
  return elapsed.count();
}

bool can_run(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace ddp::bench
