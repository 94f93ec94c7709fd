// SPDX-License-Identifier: MIT
#include "launcher/verdict/source_lines.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <optional>

#include "ddp/base/file_descriptor.h"
#include "launcher/processes/pipe.h"

namespace ddp::launcher {
namespace {

// Starts a child whose stdout is `output`; returns 0 if the program cannot be started.
pid_t start(const char* program, const std::string& module, const std::string& address,
            const FileDescriptor& output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  std::array<const char*, 5> argv{program, "-e", module.c_str(), address.c_str(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, program, &actions, nullptr,
                                   const_cast<char* const*>(argv.data()), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

std::string ask(const char* program, const std::string& module, const std::string& address,
                const Deadline& end) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return "";
  const FileDescriptor read_end(fds[0]);
  FileDescriptor write_end(fds[1]);
  const pid_t pid = start(program, module, address, write_end);
  write_end.reset();
  if (pid == 0) return "";
  const std::optional<std::string> answer = read_all(read_end, end);
  ::kill(pid, SIGKILL);              // it may still be running
  ::waitpid(pid, nullptr, WNOHANG);  // does not wait for a child that is stuck in the kernel
  return answer.value_or("");
}

// "/src/train.cpp:57 (discriminator 3)\n"; unknown parts are "??:0" or "…:?".
std::string parse_answer(const std::string& answer) {
  std::string line = answer.substr(0, answer.find('\n'));
  if (line.ends_with(')')) line.erase(std::min(line.rfind(" (discriminator "), line.size()));
  const std::size_t colon = line.rfind(':');
  if (colon == std::string::npos || line.starts_with("??")) return "";
  const std::string number = line.substr(colon + 1);
  const bool is_number = !number.empty() && std::ranges::all_of(number, [](unsigned char c) {
    return std::isdigit(c);
  });
  return is_number && number != "0" ? std::filesystem::path(line).filename().string() : "";
}

}  // namespace

std::string SourceLines::line_of(const std::string& module, std::uint64_t address) {
  for (const char* program : {"addr2line", "llvm-addr2line"}) {
    if (module.empty() || end_.passed()) return "";
    const std::string answer = ask(program, module, fmt::format("{:#x}", address), end_);
    if (!answer.empty()) return parse_answer(answer);
  }
  return "";
}

}  // namespace ddp::launcher
