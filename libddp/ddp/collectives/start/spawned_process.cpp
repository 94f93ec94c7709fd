// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/spawned_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/system/process_status.h"

namespace ddp {
namespace {

// More would not fit into the socket's buffer, and the parent reads only when the child has ended.
constexpr std::size_t kLongestMessage = 32 << 10;

struct Channel {
  FileDescriptor parent;
  FileDescriptor child;
};

Channel make_channel() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    throw SystemError("[spawn] cannot make a channel to a child", errno);
  }
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

void apply(const EnvironmentChanges& changes) {
  for (const std::string& name : changes.unset) ::unsetenv(name.c_str());
  for (const auto& [name, value] : changes.set) ::setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : changes.set_if_missing) {
    const char* inherited = ::getenv(name.c_str());
    const bool is_missing = inherited == nullptr || *inherited == '\0';
    if (is_missing) ::setenv(name.c_str(), value.c_str(), 1);
  }
}

std::optional<std::uint16_t> receive_port(const FileDescriptor& channel) {
  std::uint16_t port = 0;
  ssize_t size = 0;
  do {
    size = ::recv(channel.get(), &port, sizeof(port), MSG_WAITALL);
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof(port))) return std::nullopt;  // the parent has given up
  return port;
}

void report(const FileDescriptor& channel, const std::exception_ptr& error) {
  std::string message(1, is_caused_by_peer(error) ? '\1' : '\0');
  message += describe(error).substr(0, kLongestMessage);
  // Errors are ignored, since there is nobody to report them to.
  [[maybe_unused]] const ssize_t sent =
      ::send(channel.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Flushes C's and C++'s buffers, which need not be shared.
[[nodiscard]] bool flush_output() {
  std::cout.flush();
  std::clog.flush();
  return std::fflush(nullptr) == 0;
}

// Ends with _exit, since exit handlers that the parent registered belong to the parent.
[[noreturn]] void become_rank(SpawnedRank rank, const SpawnedProcess::Function& fn,
                              const FileDescriptor& channel) {
  int exit_code = EXIT_FAILURE;
  try {
    if (const auto port = receive_port(channel)) {
      rank.env.master.port = *port;
      apply(to_environment(rank.env, rank.omp_threads));
      fn(rank.env.rank);
      exit_code = EXIT_SUCCESS;
    }
  } catch (...) {
    report(channel, std::current_exception());
  }
  if (!flush_output()) exit_code = EXIT_FAILURE;
  ::_exit(exit_code);
}

}  // namespace

std::string to_string(const SpawnedEnding& ending) {
  return ending.error ? "threw: " + ending.error->message : describe_status(ending.status);
}

SpawnedProcess SpawnedProcess::start(const SpawnedRank& rank, const Function& fn,
                                     std::span<SpawnedProcess> siblings) {
  Channel channel = make_channel();
  (void)flush_output();  // otherwise the child would write it again
  SpawnedProcess process;
  process.rank_ = rank.env.rank;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!die_with(parent)) ::_exit(EXIT_FAILURE);
    channel.parent.reset();
    for (SpawnedProcess& sibling : siblings) sibling.forget();
    become_rank(rank, fn, channel.child);
  }
  if (pid < 0) {
    throw SystemError("[spawn] cannot fork rank " + std::to_string(process.rank_), errno);
  }
  process.pid_ = pid;
  process.channel_ = std::move(channel.parent);
  process.end_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.end_.is_open()) {
    throw SystemError("[spawn] cannot watch a child by pidfd_open (of Linux 5.3)", errno);
  }
  return process;
}

SpawnedProcess::SpawnedProcess(SpawnedProcess&& other) noexcept
    : rank_(other.rank_),
      pid_(std::exchange(other.pid_, 0)),
      channel_(std::move(other.channel_)),
      end_(std::move(other.end_)),
      ending_(std::move(other.ending_)) {}

SpawnedProcess::~SpawnedProcess() {
  if (pid_ == 0 || ending_) return;
  ::kill(pid_, SIGKILL);
  (void)wait_for_child(pid_);
}

void SpawnedProcess::forget() noexcept {
  pid_ = 0;
  channel_.reset();
  end_.reset();
}

void SpawnedProcess::tell_port(std::uint16_t port) const {
  // If the child has died meanwhile, wait() will notice.
  [[maybe_unused]] const ssize_t sent = ::send(channel_.get(), &port, sizeof(port), MSG_NOSIGNAL);
}

void SpawnedProcess::send_signal(int signal_number) const {
  if (!ending_) ::kill(pid_, signal_number);
}

void SpawnedProcess::reap() {
  const std::optional<int> status = wait_for_child(pid_);
  if (!status) throw SystemError("[spawn] cannot wait for a child", errno);
  ending_ = {.status = *status, .error = received_error()};
}

std::optional<ErrorRecord> SpawnedProcess::received_error() const {
  std::string bytes(1 + kLongestMessage, '\0');
  const ssize_t size = ::recv(channel_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 1) return std::nullopt;
  return ErrorRecord{.message = bytes.substr(1, static_cast<std::size_t>(size) - 1),
                     .caused_by_peer = bytes[0] != '\0'};
}

}  // namespace ddp
