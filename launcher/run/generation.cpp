// SPDX-License-Identifier: MIT
#include "launcher/run/generation.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "ddp/base/net/poll_until.h"
#include "ddp/base/rank_list.h"
#include "launcher/earlier.h"

namespace ddp::launcher {
namespace {

double seconds(Timeout timeout) { return std::chrono::duration<double>(timeout).count(); }

const char* was_or_were(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? "was" : "were";
}

}  // namespace

Generation::Generation(const Job& job, int restart_count)
    : job_(job), workers_(job, restart_count), stopper_(workers_.all()) {}

Outcome Generation::run() {
  react();  // to what came while the workers started, too: perhaps nothing more comes
  while (!is_finished_) {
    wait_for_events();
    react();
  }
  claim_failure();
  workers_.logs().finish();
  say_who_was_killed();
  say_who_does_not_end();
  job_.console.flush();  // the launchers may now wait for each other
  return {.failure = find_failure(),
          .interrupted_by = order_.interrupted_by(),
          .stopped_by_nodes = order_.is_by_nodes(),
          .stop_requested = order_.is_stop(),
          .late_signal = order_.late_signal()};
}

void Generation::react() {
  handle_signals();
  look_at_memory();
  claim_failure();
  const OtherNodes::News news = job_.nodes.news();
  follow_nodes(news);
  advance_stopper();
  check_start();
  check_finished(news);
  check_end();
}

void Generation::wait_for_events() {
  LogMux& logs = workers_.logs();
  // poll(2) skips negative descriptors.
  std::vector<pollfd> entries = {{job_.signals.fd(), POLLIN, 0}, {job_.nodes.fd(), POLLIN, 0}};
  const std::size_t first_stream = entries.size();
  logs.add_poll_entries(entries);
  const std::size_t streams = entries.size() - first_stream;
  job_.console.add_poll_entries(entries);
  const auto watches = earlier(earlier(start_watch_.next(), end_watch_.next()), next_memory_look_);
  poll_until(entries, earlier(earlier(logs.next_flush(), stopper_.next()), watches));
  logs.read_ready(std::span(entries).subspan(first_stream, streams));
  logs.flush_partial_lines();
  job_.console.flush();
}

void Generation::handle_signals() {
  bool child_ended = false;
  while (const auto signal_number = job_.signals.next()) {
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

// SIGUSR1, which libddp's SignalGuard handles: all ranks should stop at the same step. Workers that
// are already being stopped get no more time.
void Generation::request_stop() {
  const bool is_first = order_.request();
  job_.nodes.request_stop();
  const std::size_t told = workers_.signal_all(SIGUSR1);
  if (stopper_.is_stopping() || !is_first) return;
  stopper_.expect_end(grace());
  job_.console.say(
      fmt::format("SIGUSR1: passed on to {}; ranks that still run after {:g} s are killed",
                  counted(told, "rank"), seconds(grace())));
}

// To one worker only: one report is enough.
void Generation::request_report() {
  const std::optional<int> rank = workers_.signal_one(SIGUSR2);
  if (rank) job_.console.say(fmt::format("SIGUSR2: passed on to rank {}", *rank));
}

// Only a person at the keyboard is impatient; a scheduler or a closing terminal may well signal
// twice.
void Generation::stop_on(int signal_number) {
  const bool from_keyboard = is_from_keyboard(signal_number);
  if (signal_number == SIGKILL) {
    interrupt(signal_number);
    job_.console.say("ddp-launch was killed; killing " + counted(remaining(), "rank"));
    kill_now();
  } else if (order_.confirm(signal_number)) {
    return;
  } else if (stopper_.is_stopping()) {
    order_.note_late(signal_number);
    if (!from_keyboard) return;
    job_.nodes.hurry();
    kill_now();
  } else {
    interrupt(signal_number);
    job_.console.say(fmt::format("{}: {}{}", signal_name(signal_number), describe_stop(),
                                 from_keyboard ? " (again: kill at once)" : ""));
    job_.console.flush();
    stopper_.terminate(grace());
  }
}

void Generation::interrupt(int signal_number) {
  order_.interrupt(signal_number);
  if (signal_number == SIGKILL) {
    job_.nodes.claim_failure();
  } else {
    job_.nodes.claim_stop(signal_number);
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
    stopper_.terminate(time_to_end(), casualties_.see_failure(workers_.dying()));
  }
}

void Generation::record_end(pid_t pid, int status, const rusage& usage) {
  std::optional<Ending> ending = workers_.record_end(pid, status, usage);
  if (!ending) return;
  look_for_stop_request();
  if (status == 0 && workers_.noted(ending->rank).start_phase == StartPhase::kNotThere) {
    start_watch_.note_absent(ending->rank);
  }
  end_watch_.note_end();
  ending->was_requested = was_requested(status);
  casualties_.record(std::move(*ending));
}

// A signal that this launcher has not sent asked the worker to stop, as `kill` and some schedulers
// do. The ranks stop at the same step, so the end of the job is a stop, not a success, and not a
// reason to start it again. Once this launcher stops the workers itself, a wrapper around a worker
// may pass its signal on, so later requests do not count.
void Generation::look_for_stop_request() {
  if (stopper_.is_stopping() || order_.is_stop()) return;
  for (const Worker& worker : workers_.all()) {
    const std::optional<StopRequest> request = workers_.noted(worker.rank()).stop_request;
    if (!request || request->sender == ::getpid()) continue;
    order_.note_request_to_worker();
    job_.nodes.tell_stop_of_worker();
    return job_.console.say(fmt::format("{} to rank {} asked the job to stop",
                                        signal_name(request->signal_number), worker.rank()));
  }
}

// True if the worker ended by a signal that it was asked to obey, or with the exit code that
// shells make of it. After a failure nothing but SIGUSR1 counts as a request: the other workers
// only follow the failure.
bool Generation::was_requested(int status) const {
  const int signal_number = exit_code_of(status) - 128;
  if (casualties_.has_seen_failure() && signal_number != SIGUSR1) return false;
  return order_.asks_for(signal_number, stopper_.is_killing());
}

std::string Generation::describe_stop() const {
  if (remaining() == 0) {
    return fmt::format("no rank runs here any more; what is left of the job has {:g} s (--grace)",
                       seconds(grace()));
  }
  return fmt::format("stopping {}, which {} {:g} s (--grace) to end", counted(remaining(), "rank"),
                     remaining() == 1 ? "has" : "have", seconds(grace()));
}

// If this failure is only a consequence, its cause is on another node, whose launcher gets time to
// claim it first.
void Generation::claim_failure() {
  if (!casualties_.has_seen_failure() || has_claimed_) return;
  if (!casualties_.is_cause_certain() && !casualties_.is_patience_over() && !is_finished_) return;
  has_claimed_ = true;
  job_.nodes.claim_failure();
}

void Generation::follow_nodes(const OtherNodes::News& news) {
  if (stopper_.is_stopping()) return follow_hurry(news);
  if (news.stop_requested && !order_.is_requested()) request_stop();
  if (!news.is_bad()) return;
  order_.follow(news.stop_signal);
  if (news.stop_signal) {
    job_.console.say(fmt::format("{} on {}: {}", signal_name(*news.stop_signal),
                                 job_.nodes.describe(*news.failed_node), describe_stop()));
  }
  stopper_.terminate(news.stop_signal ? grace() : job_.plan.failure_grace);
  follow_hurry(news);
}

void Generation::follow_hurry(const OtherNodes::News& news) {
  if (!news.hurried_by || order_.is_hurried()) return;
  if (remaining() > 0) {
    job_.console.say(fmt::format("{} does not wait any longer: killing {}",
                                 job_.nodes.describe(*news.hurried_by),
                                 counted(remaining(), "rank")));
  }
  kill_now();
}

void Generation::look_at_memory() {
  if (!next_memory_look_.passed()) return;
  workers_.look_at_memory();
  next_memory_look_ = Deadline::after(PostMortem::kBetweenLooks);
}

void Generation::check_start() {
  if (!start_watch_.is_due()) return;
  const std::string remark = start_watch_.look(workers_.waiting_to_meet());
  if (!remark.empty() && !stopper_.is_stopping()) job_.console.say(remark);
}

void Generation::check_end() {
  if (is_finished_ || !end_watch_.is_due()) return;
  if (remaining() == 0) return look_at_survivors(stopper_.killed_at());
  const std::string remark = end_watch_.look_at_workers(workers_.all());
  if (!remark.empty()) job_.console.say(remark);
}

// Once the workers have ended, ends the processes that they left behind. After a good end these
// have a moment to end by themselves, such as a `tee` that has yet to write the last lines. Until
// the other nodes' workers have ended well, this node's success is not the job's. If a signal stops
// the job, they also still need the store, and may have a failure to report.
void Generation::check_finished(const OtherNodes::News& news) {
  const bool are_gone = remaining() == 0;
  if (are_gone && (!has_children_ || stopper_.survivors().empty())) {
    // A failure is always claimed, on this node or another, before the end is reported, so that no
    // node takes it for a good end.
    if (casualties_.has_seen_failure() && !has_claimed_ && !news.is_over()) return;
    if (!std::exchange(has_told_end_, true)) job_.nodes.end_generation();
    note_stops_elsewhere(news);
    is_finished_ = news.is_over() || order_.is_hurried();
  } else if (stopper_.has_given_up()) {
    is_finished_ = true;
  } else if (are_gone) {
    const Timeout time = time_to_end();
    stopper_.terminate(time, order_.is_requested() ? Timeout(0) : time);
  }
}

// What a job that has ended well left behind is named before it obeys: it was not asked before.
void Generation::advance_stopper() {
  const bool has_ended_well = remaining() == 0 && !casualties_.has_seen_failure();
  if (has_ended_well && stopper_.is_about_to_terminate()) {
    look_at_survivors(Deadline::after(time_to_end()));
  }
  stopper_.advance();
}

void Generation::look_at_survivors(std::optional<Deadline> killed_at) {
  const std::string remark = end_watch_.look_at_survivors(stopper_.survivors(), killed_at);
  if (!remark.empty()) job_.console.say(remark);
}

// For the verdict: how the job was stopped, if the workers here had ended before.
void Generation::note_stops_elsewhere(const OtherNodes::News& news) {
  if (news.stop_requested) order_.request();
  if (news.worker_stopped && !order_.is_stop()) {
    order_.note_request_to_worker();
    job_.console.say("a signal to a rank of another node asked the job to stop");
  }
  if (news.is_bad() && !casualties_.has_seen_failure()) order_.note_end_elsewhere();
}

// While a signal stops the job, a worker fails if it neither obeys nor blames a peer.
std::optional<WorkerFailure> Generation::find_failure() const {
  const bool has_failed =
      casualties_.has_seen_failure() || (order_.signal() && casualties_.knows_cause());
  return has_failed ? std::optional(describe_failure()) : std::nullopt;
}

WorkerFailure Generation::describe_failure() const {
  WorkerFailure failure = casualties_.describe(job_.layout.world_size, start_);
  failure.when_asked_to_stop = order_.signal().has_value();
  const std::vector<int> finished = casualties_.finished();
  const bool misses = !failure.when_asked_to_stop && misses_others(failure.first);
  // Once ranks have ended before, those of other nodes may have, too, which this one cannot see.
  const bool may_have_ended = job_.layout.node_count > 1 && (misses || !finished.empty());
  if (failure.when_asked_to_stop || may_have_ended) failure.others = 0;
  if (misses) {
    for (const int rank : finished) {
      failure.finished.push_back({rank, workers_.noted(rank).step});
    }
  }
  workers_.add_traces(failure);
  return failure;
}

// True if a worker failed because of a peer, or while it waited for the others to start.
bool Generation::misses_others(const Ending& ending) const {
  const bool was_waiting = workers_.noted(ending.rank).start_phase == StartPhase::kWaiting;
  return ending.is_consequence() || was_waiting;
}

Timeout Generation::grace() const {
  return order_.is_from_keyboard() ? job_.plan.keyboard_grace : job_.plan.outside_grace;
}

// For what is left once a worker has failed or all have ended. If the job was asked to stop, the
// others may be saving, and a worker may be a script whose program is.
Timeout Generation::time_to_end() const {
  if (!order_.is_requested()) return job_.plan.failure_grace;
  return stopper_.time_left().value_or(grace());
}

void Generation::say_who_was_killed() {
  const std::optional<Timeout> time = stopper_.overdue_after();
  if (!time) return;
  std::vector<int> slow = casualties_.killed_on_request();
  const auto first_stopped =
      std::ranges::stable_partition(slow, [&](int rank) { return !stopper_.was_stopped(rank); });
  const std::vector<int> stopped(first_stopped.begin(), slow.end());
  slow.erase(first_stopped.begin(), slow.end());
  if (!stopped.empty()) {
    job_.console.say(fmt::format("{} could not end, because {} {} stopped (SIGSTOP), and {} killed",
                                 rank_list(stopped), stopped.size() == 1 ? "it" : "they",
                                 was_or_were(stopped), was_or_were(stopped)));
  }
  if (!slow.empty()) {
    job_.console.say(fmt::format(
        "{} had not ended after {:g} s and {} killed; give {} longer with --grace SECONDS",
        rank_list(slow), seconds(*time), was_or_were(slow), slow.size() == 1 ? "it" : "them"));
  }
}

void Generation::say_who_does_not_end() {
  if (!stopper_.has_given_up()) return;
  for (const ProcessStat& process : stopper_.survivors()) {
    job_.console.say(fmt::format("pid {} does not end, not even by SIGKILL (state {})", process.pid,
                                 process.state));
  }
}

}  // namespace ddp::launcher
