// SPDX-License-Identifier: MIT
#include "launcher/run/workers.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/host_name.h"
#include "ddp/base/system/process_status.h"
#include "launcher/output/log_route.h"
#include "launcher/plan/environment.h"
#include "launcher/verdict/abort_message.h"
#include "launcher/verdict/crash_report.h"

namespace ddp::launcher {
namespace {

FileDescriptor open_null() {
  FileDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_open()) throw SystemError("cannot open /dev/null", errno);
  return null;
}

// What is typed at a terminal is the shell's, since the workers may go on in the background.
bool may_read_stdin(int rank) { return rank == 0 && ::isatty(STDIN_FILENO) == 0; }

// LibTorch writes frames below the text of an exception, of 1.13 and of 2.x.
bool is_stack_frame(std::string_view line) {
  return line.starts_with("frame #") ||
         (line.starts_with('#') && line.find_first_of("0123456789") == 1);
}

// Does nothing if the worker has left a record, which knows more. Earlier lines than the last ones
// concern the end only if all from there on are a stack trace.
void explain_abort(WorkerFailure& failure, std::vector<std::string> lines) {
  const int status = failure.first.status;
  if (failure.first.record || exit_code_of(status) != 128 + SIGABRT) return;
  const std::vector<std::string>& last = failure.last_lines;
  if (last.empty() || !is_stack_frame(last.front())) lines.clear();
  lines.insert(lines.end(), last.begin(), last.end());
  const std::string message = abort_message(lines);
  if (!message.empty()) failure.first.record = ErrorRecord{.message = message};
}

}  // namespace

Workers::Workers(const Job& job, int restart_count)
    : job_(job),
      logs_(job.console, job.layout.node_count > 1 ? host_name() : ""),
      slots_(job.layout.local_world_size) {
  const std::string remark = job_.files.begin_attempt(job_.layout.local_world_size, restart_count);
  if (!remark.empty()) job_.console.say(remark);
  folder_ = job_.files.attempt();
  start({.restart_count = restart_count, .folder = folder_, .worker_slots = slots_.path()});
  const bool are_loaded = wait_until_loaded();
  for (Worker& worker : workers_) {
    read_output(worker);
    if (!job_.plan.verbose) continue;
    const Placement placement = placement_of(job_.plan, worker.local_rank());
    job_.console.say(fmt::format("rank {}: pid {}{}", worker.rank(), worker.pid(),
                                 describe_placement(placement)));
  }
  if (are_loaded && job_.plan.on_start) job_.plan.on_start();
}

// False if a signal came first that ends the job: it ends these workers like any others.
bool Workers::wait_until_loaded() {
  for (Worker& worker : workers_) {
    const auto signal_number = worker.wait_for_exec(job_.plan.command, job_.signals);
    if (!signal_number) continue;
    job_.console.say(fmt::format("{} while rank {} (pid {}) was being loaded",
                                 signal_name(*signal_number), worker.rank(), worker.pid()));
    return false;
  }
  return true;
}

void Workers::start(const Attempt& attempt) {
  const FileDescriptor null = open_null();
  workers_.reserve(static_cast<std::size_t>(job_.layout.local_world_size));
  for (int local_rank = 0; local_rank < job_.layout.local_world_size; ++local_rank) {
    const int rank = job_.layout.first_rank + local_rank;
    const Command command = command_of(job_.plan.command, local_rank);
    const EnvironmentBlock environment =
        worker_environment(job_.plan, job_.layout, attempt, local_rank);
    workers_.push_back(
        Worker::start({.rank = rank,
                       .local_rank = local_rank,
                       .command = command,
                       .environment = environment,
                       .signal_mask = job_.signals.original_mask(),
                       .cpus = placement_of(job_.plan, local_rank).cpus,
                       .descriptors = job_.plan.descriptors,
                       .stdin_fd = may_read_stdin(rank) ? STDIN_FILENO : null.get()}));
  }
}

void Workers::read_output(Worker& worker) {
  const int local_rank = worker.local_rank();
  for (const Channel channel : {Channel::kOut, Channel::kErr}) {
    const Route where = route(job_.plan.logs, worker.rank(), local_rank, channel);
    logs_.add({.rank = worker.rank(),
               .channel = channel,
               .pipe = channel == Channel::kOut ? worker.take_stdout() : worker.take_stderr(),
               .is_shown = where.to_console,
               .log_file = where.to_file ? folder_.log_file(local_rank, channel) : ""});
  }
}

std::size_t Workers::signal_all(int signal_number) const {
  std::size_t told = 0;
  for (const Worker& worker : workers_) {
    if (worker.has_ended()) continue;
    ::kill(worker.pid(), signal_number);
    ++told;
  }
  return told;
}

std::optional<int> Workers::signal_one(int signal_number) const {
  const auto worker = std::ranges::find_if_not(workers_, &Worker::has_ended);
  if (worker == workers_.end()) return std::nullopt;
  ::kill(worker->pid(), signal_number);
  return worker->rank();
}

std::vector<pid_t> Workers::dying() const {
  std::vector<pid_t> dying;
  for (const Worker& worker : workers_) {
    const auto process = worker.has_ended() ? std::nullopt : read_process(worker.pid());
    if (process && process->is_exiting()) dying.push_back(worker.pid());
  }
  return dying;
}

std::vector<int> Workers::waiting_to_meet() const {
  std::vector<int> waiting;
  for (const Worker& worker : workers_) {
    const StartPhase phase = slots_.read(worker.local_rank()).start_phase;
    if (!worker.has_ended() && phase == StartPhase::kWaiting) waiting.push_back(worker.rank());
  }
  return waiting;
}

WorkerSlot::Values Workers::noted(int rank) const { return slots_.read(local_rank(rank)); }

std::optional<Ending> Workers::record_end(pid_t pid, int status, const rusage& usage) {
  const auto worker = std::ranges::find(workers_, pid, &Worker::pid);
  if (worker == workers_.end()) return std::nullopt;
  worker->record_end(status);
  logs_.drain(worker->rank());
  Ending ending = post_mortem_.examine({.rank = worker->rank(), .pid = pid, .status = status},
                                       usage, folder_.error_file(worker->local_rank()));
  if (ending.is_failure() && !ending.record) ending.record = noted(worker->rank()).error;
  return ending;
}

void Workers::add_traces(WorkerFailure& failure) const {
  const int rank = failure.first.rank;
  if (!failure.step) failure.step = noted(rank).step;
  failure.host = host_name();
  failure.frames = read_crash_record(folder_.crash_file(local_rank(rank)),
                                     exit_code_of(failure.first.status) - 128);
  StderrTail tail = logs_.stderr_tail(rank);
  failure.last_lines = std::move(tail.lines);
  explain_abort(failure, std::move(tail.earlier));
  failure.lines_are_in_view = tail.is_in_view;
  if (has_files(job_.plan.logs) && logs_.files_are_complete()) {
    failure.log_file = folder_.log_file(local_rank(rank), Channel::kErr);
  }
}

}  // namespace ddp::launcher
