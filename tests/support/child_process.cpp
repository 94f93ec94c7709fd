// SPDX-License-Identifier: MIT
#include "support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "ddp/base/error.h"
#include "support/pipe.h"

namespace ddp::test {
namespace {

FileDescriptor open_pidfd(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string name_of(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}

// The environment of this process as "NAME=value", with `changes` applied.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  for (const auto& [name, value] : changes) {
    std::erase_if(all, [&](const std::string& entry) { return name_of(entry) == name; });
    all.push_back(name + "=" + value);
  }
  return all;
}

// Runs between fork and exec. Another thread may have held the allocator's lock at the fork, so
// this must not allocate.
void become(char* const* argv, char* const* envp, const ChildProcess::Options& options,
            const int (&fds)[3]) {
  for (int fd = 0; fd < 3; ++fd) ::dup2(fds[fd], fd);
  if (options.close_stdout) ::close(STDOUT_FILENO);
  // A shell's background job ignores SIGINT, and nohup's SIGHUP, which the child would inherit.
  for (const int signal_number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    std::signal(signal_number, SIG_DFL);
  }
  for (const int signal_number : options.ignored_signals) std::signal(signal_number, SIG_IGN);
  ::execve(argv[0], argv, envp);
  ::_exit(99);
}

// Appends the available bytes to `text`; closes the pipe at the end of the stream.
void receive(FileDescriptor& pipe, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t size = ::read(pipe.get(), buffer.data(), buffer.size());
  if (size > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  } else {
    pipe.reset();
  }
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& argv, const Options& options) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  if (!options.stdout_path.empty()) {
    out.write_end = FileDescriptor(::open(options.stdout_path.c_str(), O_WRONLY | O_CLOEXEC));
  }
  const std::vector<char*> arguments = c_strings(argv);
  const std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> assignments = c_strings(environment);
  pid_ = ::fork();
  if (pid_ < 0) throw SystemError("fork", errno);
  if (pid_ == 0) {
    become(arguments.data(), assignments.data(), options,
           {in.read_end.get(), out.write_end.get(), err.write_end.get()});
  }
  stdin_ = std::move(in.write_end);
  stdout_ = std::move(out.read_end);
  stderr_ = std::move(err.read_end);
  pidfd_ = open_pidfd(pid_);
}

ChildProcess::~ChildProcess() {
  if (exit_code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool ChildProcess::read_some(Deadline deadline) {
  if (!stdout_.is_open() && !stderr_.is_open()) return false;
  pollfd entries[] = {{stdout_.get(), POLLIN, 0}, {stderr_.get(), POLLIN, 0}};
  const int ready = ::poll(entries, 2, static_cast<int>(deadline.remaining().count()));
  if (ready == 0) {
    throw TimeoutError("the child still runs; stdout so far: '" + out_ + "', stderr: '" + err_ +
                       "'");
  }
  if (entries[0].revents != 0) receive(stdout_, out_);
  if (entries[1].revents != 0) receive(stderr_, err_);
  return true;
}

void ChildProcess::wait_until(const std::function<bool(const ChildProcess&)>& condition,
                              Timeout timeout) {
  const Deadline deadline = Deadline::after(timeout);
  while (!condition(*this)) {
    if (read_some(deadline)) continue;
    throw PeerError("the child's output ended too early: '" + out_ + "', stderr: '" + err_ + "'");
  }
}

void ChildProcess::wait_for_output(const std::string& text, Timeout timeout) {
  const auto contains = [&text](const std::string& output) {
    return output.find(text) != std::string::npos;
  };
  wait_until([&](const ChildProcess&) { return contains(out_) || contains(err_); }, timeout);
}

int ChildProcess::wait(Timeout timeout) {
  const Deadline deadline = Deadline::after(timeout);
  while (read_some(deadline)) {
  }
  pollfd entry{pidfd_.get(), POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(deadline.remaining().count())) == 0) {
    throw TimeoutError("the child closed its output but still runs");
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return *exit_code_;
}

void ChildProcess::write_stdin(const std::string& text) {
  if (::write(stdin_.get(), text.data(), text.size()) < 0) throw SystemError("write", errno);
}

void ChildProcess::send_signal(int signal_number) { ::kill(pid_, signal_number); }

bool wait_until_gone(pid_t pid, Timeout timeout) {
  const FileDescriptor pidfd = open_pidfd(pid);
  if (!pidfd.is_open()) return true;
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string last_line(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  return lines.empty() ? "" : lines.back();
}

}  // namespace ddp::test
