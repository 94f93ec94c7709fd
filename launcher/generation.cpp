// SPDX-License-Identifier: MIT
#include "launcher/generation.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ddp/base/error.h"
#include "launcher/launch_error.h"
#include "launcher/poll_timeout.h"

namespace ddp::launcher {
namespace {

// Who fails first may be a rank whose peer has left it; the peer is still about to say why.
constexpr Timeout kLastWords{200};

// waitpid says ECHILD in the usual case, and /proc need not be read.
std::vector<pid_t> children_before_the_job() {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return {};
  std::vector<pid_t> pids;
  for (const ProcessStat& process : living_descendants(::getpid(), {})) pids.push_back(process.pid);
  return pids;
}

void require_descriptors(int workers) {
  rlimit limit{};
  const rlim_t needed = 3 * static_cast<rlim_t>(workers) + 32;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && needed > limit.rlim_cur) {
    throw LaunchError(fmt::format("{} workers need {} open files, but the limit is {} (ulimit -n)",
                                  workers, needed, limit.rlim_cur));
  }
}

FileDescriptor open_null() {
  FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_open()) throw SystemError("cannot open /dev/null", errno);
  return null;
}

// Workers are not in the terminal's foreground group: reading from it would stop them.
bool may_read_stdin(int rank) { return rank == 0 && ::isatty(STDIN_FILENO) == 0; }

std::string count_ranks(std::size_t count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

}  // namespace

Generation::Generation(const WorkerPlan& plan, const JobContext& job, SignalReader& signals,
                       Console& console, NodeWatch* nodes)
    : plan_(plan),
      job_(job),
      signals_(signals),
      console_(console),
      nodes_(nodes),
      logs_(console, plan.show),
      stopper_(workers_, children_before_the_job()),
      start_(Clock::now()) {}

Outcome Generation::run() {
  start_workers();
  while (!is_finished_) {
    wait_for_events();
    handle_signals();
    check_nodes();
    stopper_.advance();
    check_finished();
  }
  logs_.finish();
  say_who_does_not_end();
  Outcome outcome{
      .failure = {}, .interrupted_by = interrupted_by_, .stopped_by_nodes = stopped_by_nodes_};
  if (!suspects_.empty()) outcome.failure = describe_failure();
  return outcome;
}

void Generation::start_workers() {
  require_descriptors(job_.local_world_size);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const FileDescriptor null = open_null();
  workers_.reserve(static_cast<std::size_t>(job_.local_world_size));
  for (int local_rank = 0; local_rank < job_.local_world_size; ++local_rank) {
    const int rank = job_.first_rank + local_rank;
    const Command command = command_of(plan_.command, local_rank);
    const EnvironmentBlock environment = worker_environment(plan_.environment, job_, local_rank);
    workers_.push_back(
        Worker::start({.rank = rank,
                       .command = command,
                       .environment = environment,
                       .signal_mask = signals_.original_mask(),
                       .stdin_fd = may_read_stdin(rank) ? STDIN_FILENO : null.get()}));
  }
  for (Worker& worker : workers_) {
    worker.wait_for_exec(plan_.command);
    logs_.add(worker.rank(), Channel::kOut, worker.take_stdout());
    logs_.add(worker.rank(), Channel::kErr, worker.take_stderr());
    if (plan_.verbose) console_.say(fmt::format("rank {}: pid {}", worker.rank(), worker.pid()));
  }
}

void Generation::wait_for_events() {
  // poll(2) skips negative descriptors.
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0},
                                 {nodes_ == nullptr ? -1 : nodes_->fd(), POLLIN, 0}};
  const std::size_t first_stream = entries.size();
  logs_.add_poll_entries(entries);
  const std::size_t streams = entries.size() - first_stream;
  console_.add_poll_entries(entries);
  const int timeout = poll_timeout({logs_.next_flush(), stopper_.next()});
  if (::poll(entries.data(), entries.size(), timeout) < 0) {
    if (errno == EINTR) return;
    throw SystemError("poll failed", errno);
  }
  logs_.read_ready(std::span(entries).subspan(first_stream, streams));
  logs_.flush_partial_lines();
  console_.flush();
}

void Generation::handle_signals() {
  bool child_ended = false;
  while (const auto signal_number = signals_.next()) {
    if (*signal_number == SIGCHLD) {
      child_ended = true;
    } else if (*signal_number == SIGUSR1 || *signal_number == SIGUSR2) {
      pass_on(*signal_number);
    } else {
      stop_on(*signal_number);
    }
  }
  if (child_ended) reap();
}

// As libddp's SignalGuard takes them: SIGUSR1 asks all ranks to stop at the same step (a
// scheduler sends it some time before the end), SIGUSR2 asks for a report, and one is enough.
void Generation::pass_on(int signal_number) {
  std::vector<int> told;
  for (const Worker& worker : workers_) {
    if (worker.has_ended() || (signal_number == SIGUSR2 && !told.empty())) continue;
    ::kill(worker.pid(), signal_number);
    told.push_back(worker.rank());
  }
  const std::string whom =
      told.size() == 1 ? fmt::format("rank {}", told.front()) : count_ranks(told.size());
  console_.say(fmt::format("{}: passed on to {}", signal_name(signal_number), whom));
}

// Only the keyboard is impatient: a scheduler or a closing terminal may well signal twice.
void Generation::stop_on(int signal_number) {
  const bool from_keyboard = signal_number == SIGINT || signal_number == SIGQUIT;
  if (stopper_.is_stopping()) {
    if (from_keyboard) stopper_.kill_now();
    return;
  }
  interrupted_by_ = signal_number;
  if (nodes_ != nullptr) nodes_->claim_failure();
  const std::string ranks = count_ranks(workers_.size() - endings_.size());
  if (signal_number == SIGHUP) {
    console_.say(fmt::format("terminal closed (SIGHUP); use nohup; stopping {}", ranks));
  } else {
    console_.say(fmt::format("{}: stopping {}{}", signal_name(signal_number), ranks,
                             from_keyboard ? " (again: kill at once)" : ""));
  }
  console_.flush();
  stopper_.terminate(plan_.interrupt_grace);
}

void Generation::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    has_children_ = pid >= 0 || errno != ECHILD;
    if (pid <= 0) break;
    record_end(pid, status);
  }
  const bool any_failed = std::ranges::any_of(endings_, &Ending::is_failure);
  if (any_failed && !stopper_.is_stopping()) {
    find_suspects();
    stopper_.terminate(plan_.failure_grace, kLastWords);
  }
}

// Adopted orphans come by here as well.
void Generation::record_end(pid_t pid, int status) {
  const auto worker = std::ranges::find(workers_, pid, &Worker::pid);
  if (worker == workers_.end()) return;
  worker->record_end(status);
  logs_.drain(worker->rank());
  endings_.push_back({worker->rank(), pid, status});
}

// Called at the first sight of a failure, before anybody is signalled: who is dead or dying now
// does so on his own account. The cause may be reaped later than its consequence: a killed process
// closes its sockets before it can be reaped.
void Generation::find_suspects() {
  failed_after_ = Clock::now() - start_;
  if (nodes_ != nullptr) nodes_->claim_failure();
  for (const Worker& worker : workers_) {
    const auto process = worker.has_ended() ? std::nullopt : read_process(worker.pid());
    const bool is_dying = process && process->is_exiting();
    if (is_dying || worker.has_ended()) suspects_.push_back(worker.pid());
    if (worker.has_ended() && worker.status() == 0) ++finished_before_stop_;
  }
}

void Generation::check_nodes() {
  if (nodes_ == nullptr || stopper_.is_stopping() || !nodes_->news().is_bad()) return;
  stopped_by_nodes_ = true;
  stopper_.terminate(plan_.failure_grace);
}

// When the workers are gone, what they left behind goes too.
void Generation::check_finished() {
  if (stopper_.has_given_up()) is_finished_ = true;
  if (is_finished_ || endings_.size() < workers_.size()) return;
  if (has_children_ && !stopper_.survivors().empty()) {
    stopper_.terminate(plan_.failure_grace);
  } else {
    is_finished_ = !others_may_fail();
  }
}

// Until they have ended well, this node's success is not the job's.
bool Generation::others_may_fail() {
  if (nodes_ == nullptr) return false;
  if (!std::exchange(has_told_end_, true)) nodes_->end_generation();
  const NodeWatch::News news = nodes_->news();
  stopped_by_nodes_ = stopped_by_nodes_ || (news.is_bad() && suspects_.empty());
  return !news.have_all_ended && !news.is_bad();
}

Failure Generation::describe_failure() {
  std::vector<Ending> suspects;
  for (const Ending& ending : endings_) {
    if (std::ranges::find(suspects_, ending.pid) != suspects_.end()) suspects.push_back(ending);
  }
  const Ending first = first_cause(suspects);
  return {.first = first,
          .others = job_.world_size - 1 - finished_before_stop_,
          .after = failed_after_,
          .last_lines = logs_.unseen_stderr_tail(first.rank)};
}

void Generation::say_who_does_not_end() {
  if (!stopper_.has_given_up()) return;
  for (const ProcessStat& process : stopper_.survivors()) {
    console_.say(fmt::format("pid {} does not end, not even by SIGKILL (state {})", process.pid,
                             process.state));
  }
}

}  // namespace ddp::launcher
