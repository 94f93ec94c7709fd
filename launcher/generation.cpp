// SPDX-License-Identifier: MIT
#include "launcher/generation.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/host_name.h"
#include "ddp/base/poll_until.h"
#include "launcher/abort_message.h"
#include "launcher/cpu_list.h"
#include "launcher/crash_report.h"
#include "launcher/earlier.h"
#include "launcher/environment.h"
#include "launcher/log_route.h"

namespace ddp::launcher {
namespace {

FileDescriptor open_null() {
  FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_open()) throw SystemError("cannot open /dev/null", errno);
  return null;
}

// Workers are not in the terminal's foreground process group: reading from the terminal would stop
// them.
bool may_read_stdin(int rank) { return rank == 0 && ::isatty(STDIN_FILENO) == 0; }

double seconds(Timeout timeout) { return std::chrono::duration<double>(timeout).count(); }

std::string count_ranks(std::size_t count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

// Does nothing if the worker has left a record, which knows more.
void explain_abort(WorkerFailure& failure) {
  const int status = failure.first.status;
  if (failure.first.record || exit_code_of(status) != 128 + SIGABRT) return;
  const std::string message = abort_message(failure.last_lines);
  if (!message.empty()) failure.first.record = ErrorRecord{.message = message};
}

}  // namespace

Generation::Generation(const WorkerPlan& plan, const JobLayout& layout, int restart_count,
                       RunFolder& files, SignalReader& signals, Console& console, OtherNodes& nodes)
    : plan_(plan),
      layout_(layout),
      attempt_{.restart_count = restart_count},
      files_(files),
      signals_(signals),
      console_(console),
      nodes_(nodes),
      logs_(console, layout.node_count > 1 ? host_name() : ""),
      stopper_(workers_),
      steps_(layout.local_world_size),
      start_(Clock::now()) {}

Outcome Generation::run() {
  start_workers();
  while (!is_finished_) {
    wait_for_events();
    handle_signals();
    check_nodes();
    stopper_.advance();
    check_start();
    check_finished();
  }
  claim_failure();
  logs_.finish();
  say_who_was_killed();
  say_who_does_not_end();
  return {.failure = find_failure(),
          .interrupted_by = order_.interrupted_by(),
          .stopped_by_nodes = order_.is_by_nodes(),
          .stop_requested = order_.is_requested()};
}

void Generation::start_workers() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  files_.begin_attempt(layout_.local_world_size, attempt_.restart_count);
  attempt_.error_directory = files_.error_directory();
  attempt_.step_file = steps_.path();
  const FileDescriptor null = open_null();
  workers_.reserve(static_cast<std::size_t>(layout_.local_world_size));
  for (int local_rank = 0; local_rank < layout_.local_world_size; ++local_rank) {
    const int rank = layout_.first_rank + local_rank;
    const Command command = command_of(plan_.command, local_rank);
    const EnvironmentBlock environment = worker_environment(plan_, layout_, attempt_, local_rank);
    workers_.push_back(
        Worker::start({.rank = rank,
                       .command = command,
                       .environment = environment,
                       .signal_mask = signals_.original_mask(),
                       .cpus = placement_of(plan_, local_rank).cpus,
                       .descriptors = plan_.descriptors,
                       .stdin_fd = may_read_stdin(rank) ? STDIN_FILENO : null.get()}));
  }
  for (Worker& worker : workers_) {
    worker.wait_for_exec(plan_.command);
    add_logs(worker);
    if (plan_.verbose) {
      console_.say(
          fmt::format("rank {}: pid {}{}", worker.rank(), worker.pid(),
                      describe_placement(placement_of(plan_, worker.rank() - layout_.first_rank))));
    }
  }
  if (plan_.on_start) plan_.on_start();
}

void Generation::add_logs(Worker& worker) {
  const int local_rank = worker.rank() - layout_.first_rank;
  for (const Channel channel : {Channel::kOut, Channel::kErr}) {
    const Route where = route(plan_.logs, worker.rank(), local_rank, channel);
    logs_.add({.rank = worker.rank(),
               .channel = channel,
               .pipe = channel == Channel::kOut ? worker.take_stdout() : worker.take_stderr(),
               .is_shown = where.to_console,
               .log_file = where.to_file ? files_.log_file(local_rank, channel) : ""});
  }
}

void Generation::wait_for_events() {
  // poll(2) skips negative descriptors.
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}, {nodes_.fd(), POLLIN, 0}};
  const std::size_t first_stream = entries.size();
  logs_.add_poll_entries(entries);
  const std::size_t streams = entries.size() - first_stream;
  console_.add_poll_entries(entries);
  poll_until(entries, earlier(earlier(logs_.next_flush(), stopper_.next()), start_watch_.next()));
  logs_.read_ready(std::span(entries).subspan(first_stream, streams));
  logs_.flush_partial_lines();
  console_.flush();
}

void Generation::handle_signals() {
  bool child_ended = false;
  while (const auto signal_number = signals_.next()) {
    if (*signal_number == SIGCHLD) {
      child_ended = true;
    } else if (*signal_number == SIGUSR1) {
      request_stop();
    } else if (*signal_number == SIGUSR2) {
      request_report();
    } else {
      stop_on(*signal_number);
    }
  }
  if (child_ended) reap();
}

// SIGUSR1, which libddp's SignalGuard handles: all ranks should stop at the same step.
void Generation::request_stop() {
  if (order_.request()) stopper_.expect_end(grace());
  nodes_.request_stop();
  std::size_t told = 0;
  for (const Worker& worker : workers_) {
    if (worker.has_ended()) continue;
    ::kill(worker.pid(), SIGUSR1);
    ++told;
  }
  console_.say(fmt::format("SIGUSR1: passed on to {}; ranks that still run after {:g} s are killed",
                           count_ranks(told), seconds(grace())));
}

// Sends SIGUSR2 to one worker only: one report is enough.
void Generation::request_report() {
  const auto worker = std::ranges::find_if_not(workers_, &Worker::has_ended);
  if (worker == workers_.end()) return;
  ::kill(worker->pid(), SIGUSR2);
  console_.say(fmt::format("SIGUSR2: passed on to rank {}", worker->rank()));
}

// Only a person at the keyboard is impatient; a scheduler or a closing terminal may well signal
// twice.
void Generation::stop_on(int signal_number) {
  const bool from_keyboard = is_from_keyboard(signal_number);
  if (signal_number == SIGKILL) {
    interrupt(signal_number);
    console_.say(fmt::format("ddp-launch was killed; killing {}", remaining_ranks()));
    kill_now();
  } else if (order_.confirm(signal_number)) {
    return;
  } else if (stopper_.is_stopping()) {
    if (from_keyboard) kill_now();
  } else {
    interrupt(signal_number);
    console_.say(fmt::format("{}: {}{}", signal_name(signal_number), describe_stop(),
                             from_keyboard ? " (again: kill at once)" : ""));
    console_.flush();
    stopper_.terminate(grace());
  }
}

void Generation::interrupt(int signal_number) {
  order_.interrupt(signal_number);
  if (signal_number == SIGKILL) {
    nodes_.claim_failure();
  } else {
    nodes_.claim_stop(signal_number);
  }
}

void Generation::kill_now() {
  order_.hurry();
  stopper_.kill_now();
}

void Generation::reap() {
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    has_children_ = pid >= 0 || errno != ECHILD;
    if (pid <= 0) break;
    record_end(pid, status, usage);
  }
  if (casualties_.any_failed() && !stopper_.is_stopping()) {
    stopper_.terminate(plan_.failure_grace, casualties_.see_failure(dying_workers()));
  }
}

// Also called for adopted orphans.
void Generation::record_end(pid_t pid, int status, const rusage& usage) {
  const auto worker = std::ranges::find(workers_, pid, &Worker::pid);
  if (worker == workers_.end()) return;
  worker->record_end(status);
  logs_.drain(worker->rank());
  const int local_rank = worker->rank() - layout_.first_rank;
  if (status == 0 && steps_.start_phase(local_rank) == StartPhase::kNotThere) {
    start_watch_.note_absent(worker->rank());
  }
  const std::string error_file = files_.error_file(local_rank);
  Ending ending = post_mortem_.examine(worker->rank(), pid, status, usage, error_file);
  ending.was_requested = was_requested(status);
  casualties_.record(std::move(ending));
}

// True if the worker ended by the signal that it was asked to obey, or with the exit code that
// shells make of it. After a failure nothing but SIGUSR1 counts as a request: the other workers
// only follow the failure.
bool Generation::was_requested(int status) const {
  const int signal_number = exit_code_of(status) - 128;
  if (casualties_.has_seen_failure() && signal_number != SIGUSR1) return false;
  return order_.asks_for(signal_number, stopper_.is_killing());
}

// The cause may be reaped after its consequence, because a killed process closes its sockets before
// it can be reaped.
std::vector<pid_t> Generation::dying_workers() const {
  std::vector<pid_t> dying;
  for (const Worker& worker : workers_) {
    const auto process = worker.has_ended() ? std::nullopt : read_process(worker.pid());
    if (process && process->is_exiting()) dying.push_back(worker.pid());
  }
  return dying;
}

std::string Generation::remaining_ranks() const {
  return count_ranks(workers_.size() - casualties_.count());
}

std::string Generation::describe_stop() const {
  const bool is_one = workers_.size() - casualties_.count() == 1;
  return fmt::format("stopping {}, which {} {:g} s (--grace) to end", remaining_ranks(),
                     is_one ? "has" : "have", seconds(grace()));
}

// If this failure is only a consequence, its cause is on another node, whose launcher gets time to
// claim it first.
void Generation::claim_failure() {
  if (!casualties_.has_seen_failure() || has_claimed_) return;
  if (!casualties_.knows_cause() && !casualties_.is_patience_over() && !is_finished_) return;
  has_claimed_ = true;
  nodes_.claim_failure();
}

void Generation::check_nodes() {
  claim_failure();
  if (stopper_.is_stopping()) return;
  const OtherNodes::News news = nodes_.news();
  if (news.stop_requested && !order_.is_requested()) request_stop();
  if (!news.is_bad()) return;
  order_.follow(news.stop_signal);
  if (news.stop_signal) {
    console_.say(fmt::format("{} on node {}: {}", signal_name(*news.stop_signal), *news.failed_node,
                             describe_stop()));
  }
  stopper_.terminate(news.stop_signal ? grace() : plan_.failure_grace);
}

void Generation::check_start() {
  if (!start_watch_.is_due()) return;
  std::vector<int> waiting;
  for (const Worker& worker : workers_) {
    const StartPhase phase = steps_.start_phase(worker.rank() - layout_.first_rank);
    if (!worker.has_ended() && phase == StartPhase::kWaiting) waiting.push_back(worker.rank());
  }
  const std::string remark = start_watch_.look(waiting);
  if (!remark.empty() && !stopper_.is_stopping()) console_.say(remark);
}

// Once the workers have ended, kills the processes that they left behind.
void Generation::check_finished() {
  const bool are_gone = casualties_.count() == workers_.size();
  if (are_gone && (!has_children_ || stopper_.survivors().empty())) {
    is_finished_ = !others_may_fail();
  } else if (stopper_.has_given_up()) {
    is_finished_ = true;
  } else if (are_gone) {
    stopper_.terminate(plan_.failure_grace);
  }
}

// Until the other nodes' workers have ended well, this node's success is not the job's. If a signal
// stops the job, they also still need the store, and may have a failure to report. A failure is
// always claimed, on this node or another, before the end is reported, so that no node takes it for
// a good end.
bool Generation::others_may_fail() {
  const bool is_unclaimed = casualties_.has_seen_failure() && !has_claimed_;
  if (is_unclaimed && !nodes_.news().is_over()) return true;
  if (!std::exchange(has_told_end_, true)) nodes_.end_generation();
  const OtherNodes::News news = nodes_.news();
  if (news.stop_requested) order_.request();
  if (news.is_bad() && !casualties_.has_seen_failure()) order_.note_end_elsewhere();
  return !news.is_over() && !order_.is_hurried();
}

// While a signal stops the job, a worker fails if it neither obeys nor blames a peer.
std::optional<WorkerFailure> Generation::find_failure() {
  const bool has_failed =
      casualties_.has_seen_failure() || (order_.signal() && casualties_.knows_cause());
  return has_failed ? std::optional(describe_failure()) : std::nullopt;
}

WorkerFailure Generation::describe_failure() {
  WorkerFailure failure = casualties_.describe(layout_.world_size, start_);
  const int rank = failure.first.rank;
  if (!failure.step) failure.step = steps_.step(rank - layout_.first_rank);
  failure.when_asked_to_stop = order_.signal().has_value();
  if (failure.when_asked_to_stop) failure.others = 0;
  if (failure.first.is_consequence() && !failure.when_asked_to_stop) {
    for (const int each : casualties_.finished()) {
      failure.finished.push_back({each, steps_.step(each - layout_.first_rank)});
    }
  }
  failure.host = host_name();
  failure.frames = read_crash_record(files_.crash_file(rank - layout_.first_rank),
                                     exit_code_of(failure.first.status) - 128);
  StderrTail tail = logs_.stderr_tail(rank);
  failure.last_lines = std::move(tail.lines);
  explain_abort(failure);
  failure.lines_are_in_view = tail.is_in_view;
  failure.log_file = files_.log_file(rank - layout_.first_rank, Channel::kErr);
  return failure;
}

Timeout Generation::grace() const {
  return order_.is_from_keyboard() ? plan_.keyboard_grace : plan_.outside_grace;
}

void Generation::say_who_was_killed() {
  const std::vector<int> ranks = casualties_.killed_on_request();
  const std::optional<Timeout> time = stopper_.overdue_after();
  if (!time || ranks.empty()) return;
  const bool is_one = ranks.size() == 1;
  console_.say(
      fmt::format("rank{} {} had not ended after {:g} s and {} killed; give {} longer with --grace "
                  "SECONDS",
                  is_one ? "" : "s", to_string(ranks), seconds(*time), is_one ? "was" : "were",
                  is_one ? "it" : "them"));
}

void Generation::say_who_does_not_end() {
  if (!stopper_.has_given_up()) return;
  for (const ProcessStat& process : stopper_.survivors()) {
    console_.say(fmt::format("pid {} does not end, not even by SIGKILL (state {})", process.pid,
                             process.state));
  }
}

}  // namespace ddp::launcher
