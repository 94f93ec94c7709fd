// SPDX-License-Identifier: MIT
#include "launcher/processes/call_in_child.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/process_status.h"
#include "ddp/base/system/write_all.h"
#include "launcher/processes/pipe.h"

namespace ddp::launcher {
namespace {

constexpr char kEnd = '\0';  // follows a whole answer

[[noreturn]] void answer(const std::function<std::string()>& function, int file,
                         pid_t parent) noexcept {
  if (!die_with(parent)) ::_exit(EXIT_FAILURE);
  const int error = write_all(file, function() + kEnd);
  ::_exit(error == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

}  // namespace

std::string call_in_child(const std::function<std::string()>& function, Timeout timeout) {
  auto [read_end, write_end] = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw SystemError("cannot fork", errno);
  if (pid == 0) answer(function, write_end.get(), parent);
  write_end.reset();
  std::optional<std::string> text = read_all(read_end, Deadline::after(timeout));
  if (!text) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, WNOHANG);  // a process that hangs in a driver cannot even be killed
    throw std::runtime_error(
        fmt::format("has not answered for {} s", std::chrono::duration<double>(timeout).count()));
  }
  const std::optional<int> status = wait_for_child(pid);
  const std::string ending = status ? describe_status(*status) : "ended early";
  if (text->empty() || text->back() != kEnd) throw std::runtime_error(ending);
  text->pop_back();
  return *std::move(text);
}

}  // namespace ddp::launcher
