// SPDX-License-Identifier: MIT
#include "launcher/run/agent.h"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

#include "ddp/base/net/poll_until.h"
#include "ddp/base/system/host_name.h"
#include "ddp/base/system/process_status.h"
#include "ddp/store/tcp_store.h"
#include "launcher/nodes/node.h"
#include "launcher/nodes/worker_keys.h"
#include "launcher/verdict/error_file.h"
#include "launcher/verdict/verdict.h"

namespace ddp::launcher {
namespace {

// Ctrl-Z stops the workers that run, and the guardian, but not this process.
bool is_suspended() {
  const auto guardian = read_process(::getppid());
  return guardian && guardian->is_stopped();
}

// Between looks whether the job is still suspended: nothing else tells.
constexpr Timeout kSuspendedPause{50};

// A blocked reader of our output must not delay the end of an interrupted job.
constexpr Timeout kInterruptedDrainTimeout{1000};

int exit_code_without_failure(const Outcome& outcome) {
  if (outcome.interrupted_by) return exit_code_after(*outcome.interrupted_by);
  return outcome.stop_requested ? exit_code_after(SIGUSR1) : EXIT_SUCCESS;
}

// True if the worker failed because of a peer.
bool is_consequence(const Failure& failure) {
  const auto* worker = std::get_if<WorkerFailure>(&failure);
  return worker != nullptr && worker->first.is_consequence();
}

// Used if this launcher hosts the store itself.
constexpr Timeout kAgentStoreTimeout = std::chrono::seconds(5);

}  // namespace

int Agent::run() {
  const int exit_code = run_generations();
  if (is_interrupted_ && exit_code == 128 + SIGHUP) {
    job_.console.say("terminal closed (SIGHUP); use nohup or --detach");
  }
  if (job_.plan.is_detached()) tell_end(exit_code);
  drain_console();
  job_.nodes.leave();
  return exit_code;
}

// Nobody has waited for the exit code of a detached job.
void Agent::tell_end(int exit_code) {
  job_.console.say(fmt::format("the job has ended after {:.1f} s, with exit code {}",
                               std::chrono::duration<double>(Clock::now() - start_).count(),
                               exit_code));
}

int Agent::run_generations() {
  wait_while_suspended();
  Outcome outcome = run_generation();
  for (;;) {
    const std::optional<Failure> failure = agree_on_failure(outcome);
    const std::optional<Timeout> delay = delay_of_restart(outcome, failure);
    if (failure) say(job_.console, *failure);
    is_interrupted_ = outcome.interrupted_by.has_value();
    if (!failure) return exit_code_without_failure(outcome);
    if (!delay) {
      job_.console.flush();  // the disk below the outer launcher's file may hang
      pass_on(*failure);
      return exit_code_after(*failure);
    }
    if (outcome.late_signal) {
      begin_next_generation();
      outcome = give_up_restart(*outcome.late_signal);
    } else {
      outcome = run_again(*delay);
    }
  }
}

Outcome Agent::run_generation() { return Generation(job_, restart_count_).run(); }

void Agent::wait_while_suspended() {
  while (is_suspended() && !job_.signals.find(ends_job) && !job_.nodes.news().is_bad()) {
    std::vector<pollfd> entries;
    job_.console.add_poll_entries(entries);
    poll_until(entries, Deadline::after(kSuspendedPause));
    job_.console.flush();
  }
}

Outcome Agent::run_again(Timeout delay) {
  job_.console.say(fmt::format("restart {} of {} in {:.0f} s", restarts_.restarts(),
                               job_.plan.max_restarts,
                               std::chrono::duration<double>(delay).count()));
  job_.console.flush();
  begin_next_generation();
  const Outcome end = wait_for_restart(delay);
  return end.interrupted_by || end.stopped_by_nodes ? end : run_generation();
}

void Agent::begin_next_generation() {
  ++restart_count_;
  job_.nodes.begin(restart_count_);
}

// Called by node 0 when the workers of all nodes have ended.
void Agent::open_generation() {
  if (job_.plan.store_host == StoreHost::kAgent) {
    TcpStore store(job_.layout.store, kAgentStoreTimeout);
    begin_attempt(store, job_.layout.run_id, restart_count_);
  }
  job_.nodes.open();
}

// The first failure of all nodes; nothing if there was none. If a signal stops the job, each node
// reports its own failure, and the node that got the signal reports only its own.
std::optional<Failure> Agent::agree_on_failure(const Outcome& outcome) {
  std::optional<Failure> own = outcome.failure;
  if (!own && !outcome.interrupted_by && !outcome.stopped_by_nodes) return std::nullopt;
  if (!own && outcome.interrupted_by) own = describe_signal(*outcome.interrupted_by);
  if (own && is_consequence(*own)) {
    if (std::string lost = find_lost_node(outcome); !lost.empty()) own = NodeFailure{lost};
  }
  const std::string text = own ? to_json(*own) : "";
  const std::optional<std::string> first = job_.nodes.agree_on_failure(text);
  const bool is_of_stop = outcome.failure && outcome.failure->when_asked_to_stop;
  if (outcome.interrupted_by || is_of_stop) return outcome.failure;
  if (own && first == text) return own;  // it also knows what is in view here
  if (auto failure = failure_from_json(first.value_or(""))) return failure;
  const std::string lost = job_.nodes.news().lost;
  if (!lost.empty()) return NodeFailure{lost};
  return own ? *own : describe_silence();
}

// The lost peer may be on a node all of whose processes have died at once, so that nobody there has
// claimed the failure. That its node is lost shows only later.
std::string Agent::find_lost_node(const Outcome& outcome) {
  const OtherNodes::News news = job_.nodes.news();
  const bool may_be_cause = !news.failed_node || news.failed_node == job_.layout.node_rank;
  if (may_be_cause && !outcome.interrupted_by && !outcome.failure->when_asked_to_stop) {
    (void)job_.nodes.wait_for_all();
  }
  return job_.nodes.news().lost;
}

// The failed node has not told its failure, and is not lost.
NodeFailure Agent::describe_silence() {
  const std::optional<int> node = job_.nodes.news().failed_node;
  const std::string who = node ? job_.nodes.describe(*node) : "another node";
  if (const auto signal_number = job_.signals.find(is_impatient)) {
    return {fmt::format("{} failed; {} ended the wait for its reason", who,
                        signal_name(*signal_number)),
            exit_code_after(*signal_number)};
  }
  return {who + " failed and did not say why"};
}

NodeFailure Agent::describe_signal(int signal_number) const {
  const std::string node = describe_node(job_.layout.node_rank, host_name());
  // Sent by this process itself once the launcher has ended, by whatever signal.
  if (signal_number == SIGKILL) {
    return {"the launcher of " + node + " was killed", exit_code_after(signal_number)};
  }
  return {node + " was stopped by " + signal_name(signal_number), exit_code_after(signal_number)};
}

// Reports to an outer launcher.
void Agent::pass_on(const Failure& failure) const {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr) return;
  const auto* worker = std::get_if<WorkerFailure>(&failure);
  const std::string record =
      worker == nullptr
          ? ""
          : job_.files.attempt().error_file(worker->first.rank - job_.layout.first_rank);
  pass_on_error_record(record, path, verdict(failure), exit_code_after(failure));
}

// If there is no restart although restarts were requested, says why. A lost node is not replaced.
std::optional<Timeout> Agent::delay_of_restart(const Outcome& outcome,
                                               const std::optional<Failure>& failure) {
  const auto* worker = failure ? std::get_if<WorkerFailure>(&*failure) : nullptr;
  if (job_.plan.max_restarts == 0 || !failure) return std::nullopt;
  if (worker == nullptr && !job_.nodes.news().lost.empty()) {
    job_.console.say("not started again: a node that is lost is not replaced");
  }
  if (worker == nullptr || worker->when_asked_to_stop) return std::nullopt;
  if (!job_.nodes.wait_for_all()) {
    const std::string lost = job_.nodes.news().lost;
    job_.console.say("not started again: " +
                     (lost.empty() ? "the workers of another node do not end" : lost));
    return std::nullopt;
  }
  const auto decision = restarts_.after_failure(worker->first.rank, worker->step);
  if (!decision.reason.empty()) job_.console.say(decision.reason);
  if (!outcome.stop_requested && !job_.nodes.news().is_stop()) return decision.delay;
  if (decision.delay) decline_restart();
  return std::nullopt;
}

// The others may not yet know that the job was asked to stop.
void Agent::decline_restart() {
  job_.console.say("not started again: the job was asked to stop");
  begin_next_generation();
  job_.nodes.claim_failure();
  (void)job_.nodes.agree_on_failure(
      to_json(NodeFailure{describe_node(job_.layout.node_rank, host_name()) + " was asked to stop",
                          exit_code_after(SIGUSR1)}));
}

// Returns early with the end of the job, if that comes first.
Outcome Agent::wait_for_restart(Timeout delay) {
  const Deadline pause = Deadline::after(delay);
  bool is_opened = job_.layout.node_rank != 0;
  for (;;) {
    const bool is_over = pause.passed() && !is_suspended();
    if (is_over && !std::exchange(is_opened, true)) open_generation();
    const OtherNodes::News news = job_.nodes.news();
    if (news.is_bad()) {
      job_.nodes.end_generation();  // it is opened, but this node did not start its workers
      return {.stopped_by_nodes = true};
    }
    if (is_over && news.is_open) return {};
    while (const auto signal_number = job_.signals.next()) {
      if (!ends_job(*signal_number)) continue;
      return give_up_restart(*signal_number);
    }
    std::vector<pollfd> entries = {{job_.signals.fd(), POLLIN, 0}, {job_.nodes.fd(), POLLIN, 0}};
    job_.console.add_poll_entries(entries);
    const Deadline next = pause.passed() ? Deadline::after(kSuspendedPause) : pause;
    poll_until(entries, is_over ? std::nullopt : std::optional(next));
    job_.console.flush();
  }
}

Outcome Agent::give_up_restart(int signal_number) {
  job_.nodes.claim_failure();
  job_.console.say(signal_name(signal_number) + ": the job is not started again");
  return {.interrupted_by = signal_number};
}

// Our reader may be a pager with a person behind it, who must not lose lines. So in that case the
// wait has no time limit, but a signal ends it.
void Agent::drain_console() {
  const Deadline limit =
      Deadline::after(is_interrupted_ ? kInterruptedDrainTimeout : Timeout::max());
  for (job_.console.flush(); job_.console.is_pending(); job_.console.flush()) {
    while (const auto signal_number = job_.signals.next()) {
      if (*signal_number != SIGCHLD) return;
    }
    std::vector<pollfd> entries = {{job_.signals.fd(), POLLIN, 0}};
    job_.console.add_poll_entries(entries);
    if (!poll_until(entries, limit)) return;
  }
}

}  // namespace ddp::launcher
