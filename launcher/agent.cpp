// SPDX-License-Identifier: MIT
#include "launcher/agent.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

#include "ddp/store/tcp_store.h"
#include "launcher/error_file.h"
#include "launcher/poll_timeout.h"
#include "launcher/worker_keys.h"

namespace ddp::launcher {
namespace {

// A reader of our output that stands still must not hold up the end of an interrupted job.
constexpr Timeout kInterruptedDrainTimeout{1000};

constexpr Ending kNodeEnded{.rank = Failure::kNoRank, .pid = 0, .status = W_EXITCODE(1, 0)};

// Whether a scheduler asked for the stop by SIGTERM or SIGUSR1: the job has not done all its work.
constexpr int kStoppedExitCode = 128 + SIGTERM;

// This launcher hosts the store itself.
constexpr Timeout kStoreTimeout = std::chrono::seconds(5);

}  // namespace

Agent::Agent(WorkerPlan plan, JobContext job, SignalReader& signals, Console& console,
             NodeWatch* nodes, RunFolder& files)
    : plan_(std::move(plan)),
      job_(std::move(job)),
      signals_(signals),
      console_(console),
      nodes_(nodes),
      files_(files),
      restarts_(job_.max_restarts) {}

int Agent::run() {
  const int exit_code = run_generations();
  if (is_interrupted_ && exit_code == 128 + SIGHUP) {
    console_.say("terminal closed (SIGHUP); use nohup or --detach");
  }
  drain_console();
  if (nodes_ != nullptr) nodes_->leave();
  return exit_code;
}

int Agent::run_generations() {
  for (;; ++job_.restart_count) {
    begin_generation();
    const Outcome outcome = Generation(plan_, job_, files_, signals_, console_, nodes_).run();
    const std::optional<Failure> failure = agree_on_failure(outcome);
    const std::optional<Timeout> delay = delay_of_restart(outcome, failure);
    if (failure) say(console_, *failure);
    is_interrupted_ = outcome.interrupted_by.has_value();
    if (is_interrupted_) return 128 + *outcome.interrupted_by;
    if (!failure) return outcome.stop_requested ? kStoppedExitCode : EXIT_SUCCESS;
    if (!delay) {
      pass_on(*failure);
      return exit_code_of(failure->first.status);
    }
    console_.say(fmt::format("restart {} of {} in {:.0f} s", restarts_.restarts(),
                             job_.max_restarts, std::chrono::duration<double>(*delay).count()));
    console_.flush();
    const std::optional<int> signal_number = wait_for_restart(*delay);
    is_interrupted_ = signal_number.has_value();
    if (is_interrupted_) return 128 + *signal_number;
  }
}

void Agent::begin_generation() {
  if (job_.restart_count > 0 && job_.node_rank == 0 && job_.agent_hosts_store) {
    TcpStore store(job_.store, kStoreTimeout);
    begin_attempt(store, job_.run_id, job_.restart_count);
    if (nodes_ != nullptr) nodes_->open(job_.restart_count);
  }
  if (nodes_ != nullptr) nodes_->begin(job_.restart_count);
}

// On several nodes the first failure of all of them; nothing if there was none, or if this is the
// node that a signal stopped: it has been said then.
std::optional<Failure> Agent::agree_on_failure(const Outcome& outcome) {
  std::optional<Failure> own = outcome.failure;
  if (nodes_ == nullptr) return own;
  if (!own && !outcome.interrupted_by && !outcome.stopped_by_nodes) return std::nullopt;
  if (!own && outcome.interrupted_by) own = describe_signal(*outcome.interrupted_by);
  const std::string text = own ? to_json(*own) : "";
  const std::string first = nodes_->agree_on_failure(text);
  if (outcome.interrupted_by) return std::nullopt;
  if (own && first == text) return own;  // which knows what is in view here
  if (auto failure = failure_from_json(first)) return failure;
  return Failure{.first = kNodeEnded, .message = nodes_->news().lost};
}

Failure Agent::describe_signal(int signal_number) const {
  const Node& self = nodes_->nodes()[static_cast<std::size_t>(nodes_->self())];
  return {.first = {.rank = Failure::kNoRank, .pid = 0, .status = W_EXITCODE(0, signal_number)},
          .message = describe_node(nodes_->self(), self) + " was stopped by " +
                     signal_name(signal_number)};
}

// To a launcher above this one.
void Agent::pass_on(const Failure& failure) const {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr) return;
  pass_on_error_record(files_.error_file(failure.first.rank - job_.first_rank), path,
                       verdict(failure), exit_code_of(failure.first.status));
}

// If there is none although one was asked for, says why. A node that is gone is not replaced.
std::optional<Timeout> Agent::delay_of_restart(const Outcome& outcome,
                                               const std::optional<Failure>& failure) {
  const bool is_wanted = job_.max_restarts > 0 && failure && !outcome.interrupted_by &&
                         !outcome.stop_requested && failure->first.rank != Failure::kNoRank;
  if (!is_wanted) return std::nullopt;
  if (nodes_ != nullptr && !nodes_->wait_for_all()) {
    console_.say("not started again: " + nodes_->news().lost);
    return std::nullopt;
  }
  const auto decision = restarts_.after_failure(failure->first.rank, failure->step);
  if (!decision.reason.empty()) console_.say(decision.reason);
  return decision.delay;
}

// Returns a signal that ends the job.
std::optional<int> Agent::wait_for_restart(Timeout delay) {
  const Deadline end = Deadline::after(delay);
  while (!end.passed()) {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    console_.add_poll_entries(entries);
    ::poll(entries.data(), entries.size(), poll_timeout(end));
    console_.flush();
    while (const auto signal_number = signals_.next()) {
      if (ends_job(*signal_number)) return signal_number;
    }
  }
  return std::nullopt;
}

// Our reader may be a pager with a person behind it, who is not to lose lines: the wait has no end
// of its own then, but a signal ends it.
void Agent::drain_console() {
  const Deadline limit =
      Deadline::after(is_interrupted_ ? kInterruptedDrainTimeout : Timeout::max());
  for (console_.flush(); console_.is_pending(); console_.flush()) {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    console_.add_poll_entries(entries);
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout(limit));
    if (ready == 0 && limit.passed()) return;
    if (const auto signal_number = signals_.next(); signal_number && *signal_number != SIGCHLD) {
      return;
    }
  }
}

}  // namespace ddp::launcher
