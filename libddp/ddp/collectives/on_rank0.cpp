// SPDX-License-Identifier: MIT
//
// Keys under a fresh name: "who" exists once rank 0 has come, and "collectives" before it; "beat"
// counts while fn runs, "result" holds the end: empty, or the text of the exception. Once all ranks
// have read that, they are deleted, since a long training may make millions of calls.
#include "ddp/collectives/on_rank0.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/printable.h"
#include "ddp/base/threads/awake_timer.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/base/threads/life_sign.h"
#include "ddp/base/threads/periodic_thread.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/meeting/let_all_read.h"
#include "ddp/collectives/meeting/meeting.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/collectives/wait_time.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr const char* kResult = "result";
constexpr const char* kResultFailed = "failed: ";
constexpr std::size_t kLongestReason = 64 << 10;  // a store refuses values that are too long
constexpr const char* kHasEnded = " has ended";
constexpr std::string_view kTemporary[] = {"who", "collectives", "beat", kResult};
constexpr int kLeader[] = {0};
constexpr Timeout kEndingGrace{1000};
constexpr Timeout kLeaderPause{5};

// Returns the result, which the others will read.
std::string run(Store& store, const std::function<void()>& fn, Timeout period,
                std::exception_ptr& error) {
  try {
    const std::shared_ptr<Store> own = store.clone(kBackgroundStoreTimeout);
    const PeriodicThread heart("ddp-heartbeat", period, [&own] { return own->add("beat", 1) > 0; });
    fn();
    return "";
  } catch (...) {
    error = std::current_exception();
    return kResultFailed + shortened(describe(error), kLongestReason);
  }
}

// Empty inside a step of the engine, in which ranks may have launched different numbers of buckets.
std::string collectives_of(ProcessGroup& group) {
  const FlightRecorder::Position position = group.recorder().position();
  return position.is_in_step ? "" : std::to_string(position.collectives);
}

PrefixStore open_store(ProcessGroup& group) {
  const std::string name = group.fresh_name("on_rank0_");
  return {name, group.state().config.store->clone()};
}

// They may only be late. But if they never call on_rank0, nothing else tells.
void warn_of_absence(ProcessGroup& group, const std::vector<int>& absent) {
  const GroupNames& names = group.state().names;
  const bool are_all = std::ssize(absent) == group.world_size() - 1;
  logging::warning("[on_rank0] " +
                   (are_all
                        ? std::string("no other rank has")
                        : names.ranks(absent) + (absent.size() == 1 ? " has not" : " have not")) +
                   " come to this call of " + names.rank(0) +
                   " yet: all ranks must make it, and only rank 0 runs the function");
}

void lead(ProcessGroup& group, const std::function<void()>& fn, Timeout period) {
  const ScopedSolo solo(group, "on_rank0");
  if (group.world_size() == 1) return fn();
  PrefixStore store = open_store(group);
  store.set("collectives", collectives_of(group));
  store.add("beat", 1);
  const std::string who =
      serialize(identify_self(group.state().config.job_rank(0), group.device()));
  meet(*group.state().meetings, "on_rank0", [&] { store.set("who", who); });
  std::exception_ptr error;
  const std::string result = run(store, fn, period, error);
  try {
    store.set(kResult, result);
    const std::vector<int> absent =
        let_all_read(store, group.rank(), group.world_size(), kTemporary);
    if (!absent.empty()) warn_of_absence(group, absent);
  } catch (const Error& lost) {
    if (!error) throw;
    logging::warning("[on_rank0] the other ranks cannot be told that it failed: " + describe(lost));
  }
  if (error) std::rethrow_exception(error);
}

std::string describe_trouble(const RankIdentity& leader, Timeout silence) {
  switch (state_of(leader)) {
    case ProcessState::kEnded:
      return kHasEnded;
    case ProcessState::kStopped:
      return " is stopped (SIGSTOP)";
    default:
      return " has given no sign of life for " + std::to_string(silence.count()) + " ms";
  }
}

[[noreturn]] void refuse_different_calls(ProcessGroup& group, const std::string& what) {
  const std::string text =
      "[on_rank0] " + what +
      ": one of them has skipped an on_rank0, or a collective before it; call it on all ranks, in "
      "the same order";
  group.abort(text);
  throw MismatchError(text);
}

// What rank 0 has published for the hang watch. Nothing without one, or if the store does not
// answer, which says nothing about rank 0.
std::optional<std::uint64_t> published_collectives_of_leader(const GroupConfig& config) {
  if (config.job.hang_watch == nullptr) return std::nullopt;
  try {
    return config.job.hang_watch->collectives_of(config.job_rank(0), config.name);
  } catch (const TimeoutError&) {
    return std::nullopt;
  }
}

// All ranks submit the same collectives between two calls. So a rank 0 that has already submitted
// more of them, and has not come to this call before, waits for this rank there, while this one
// waits here.
void check_leader_is_not_ahead(ProcessGroup& group, Store& store) {
  const std::string own = collectives_of(group);
  if (own.empty()) return;
  const auto leaders = published_collectives_of_leader(group.state().config);
  if (!leaders || *leaders <= std::stoull(own) || store.has("who")) return;
  const GroupNames& names = group.state().names;
  refuse_different_calls(group, names.self() + " called on_rank0 after " + own +
                                    " collectives of the group, but " + names.rank(0) +
                                    " is in another call after " + std::to_string(*leaders));
}

// How long one look at rank 0 may take; in a longer one this process was suspended.
Timeout longest_look(Timeout period) {
  return 2 * std::min(period, kLongestTimeout) + kLateAnswerGrace;
}

// Returns what is under "who".
std::string await_leader(ProcessGroup& group, Store& store, Timeout period) {
  const Timeout timeout = group.state().context.timeout;
  AwakeTimer timer(longest_look(period));
  for (;;) {
    try {
      return store.get("who", std::min(period, timeout - timer.passed()));
    } catch (const TimeoutError&) {
      group.check_on(kLeader, [&] { return store.wait_for("who", period); });
      check_leader_is_not_ahead(group, store);
      if (timer.look() < timeout) continue;
      throw TimeoutError("[on_rank0] " + group.state().names.rank(0) +
                         " has not called on_rank0 within " + std::to_string(timeout.count()) +
                         " ms");
    }
  }
}

RankIdentity meet_leader(ProcessGroup& group, Store& store, Timeout period) {
  std::string who;
  meet(*group.state().meetings, "on_rank0", [&] { who = await_leader(group, store, period); });
  return parse_rank_identity(who);
}

[[noreturn]] void give_up(ProcessGroup& group, const std::string& why) {
  const std::string text = why + " in on_rank0";
  group.abort(text);
  throw PeerError("[on_rank0] " + text);
}

// Another number of collectives means that this rank and rank 0 are not in the same call. Sends and
// receives do not count, since ranks differ in them.
void check_same_call(ProcessGroup& group, Store& store) {
  const std::string own = collectives_of(group);
  const std::string leaders = store.find("collectives").value_or("");
  if (own.empty() || leaders.empty() || leaders == own) return;
  group.check_unbroken();  // ranks learn at different collectives that it is
  const GroupNames& names = group.state().names;
  refuse_different_calls(group, names.rank(0) + " called on_rank0 after " + leaders +
                                    " collectives of the group, but " + names.self() + " after " +
                                    own);
}

// Nothing if the store does not answer.
std::optional<std::string> read_heartbeat(Store& store, Timeout timeout) {
  try {
    return store.get("beat", timeout);
  } catch (const TimeoutError&) {
    return std::nullopt;
  }
}

// A store that does not answer says nothing about rank 0, unless rank 0 is seen to be stopped: then
// it may host the store. Otherwise this waits as long as a request to the store may take.
std::string await_result(ProcessGroup& group, Store& store, const RankIdentity& leader,
                         const OnRank0Options& options) {
  LifeSign life(longest_look(options.period));
  LifeSign life_of_store(longest_look(options.period));
  std::uint64_t answers = 0;
  std::string last_beat = "0";
  while (!store.wait_for(kResult, options.period)) {
    const std::optional<std::string> beat = read_heartbeat(store, options.period);
    const ProcessState state = state_of(leader);
    const Timeout silence_of_store = life_of_store.silence(beat ? ++answers : answers);
    if (!beat && state != ProcessState::kStopped) {
      if (silence_of_store >= store.timeout()) {
        throw TimeoutError(
            "[on_rank0] the store, which rank 0 or its launcher hosts, has not answered for " +
            std::to_string(silence_of_store.count()) + " ms");
      }
      life = LifeSign(longest_look(options.period));
      continue;
    }
    last_beat = beat.value_or(last_beat);
    const Timeout silence = life.silence(std::stoull(last_beat));
    const bool has_ended = state == ProcessState::kEnded && !store.has(kResult);
    if (silence >= options.silence || has_ended) {
      give_up(group, to_string(leader) + describe_trouble(leader, silence));
    }
    if (beat) group.check_unbroken();
  }
  return store.get(kResult);
}

// A process that ends closes its connections a moment before it counts as ended.
bool is_ending(const RankIdentity& leader) {
  ProcessState state = ProcessState::kAlive;
  const auto has_changed = [&] { return (state = state_of(leader)) != ProcessState::kAlive; };
  return becomes_true(has_changed, kEndingGrace, kLeaderPause) && state == ProcessState::kEnded;
}

// Returns the result. The store goes with rank 0 if that hosts it, and is as silent.
std::string follow(ProcessGroup& group, Store& store, const OnRank0Options& options) {
  std::optional<RankIdentity> leader;
  try {
    leader = meet_leader(group, store, options.period);
    check_same_call(group, store);
    return await_result(group, store, *leader, options);
  } catch (const NetworkError&) {
    if (leader && is_ending(*leader)) give_up(group, to_string(*leader) + kHasEnded);
    std::throw_with_nested(
        NetworkError("[on_rank0] lost the store, which rank 0 or its launcher hosts"));
  }
}

}  // namespace

void on_rank0(ProcessGroup& group, const std::function<void()>& fn, const OnRank0Options& options) {
  group.check_unbroken();
  if (group.rank() == 0) return lead(group, fn, options.period);
  PrefixStore store = open_store(group);
  const FlightRecorder::Inside inside(group.recorder());
  const WaitTimer timer;
  const std::string result = follow(group, store, options);
  let_all_read(store, group.rank(), group.world_size());
  if (!result.empty()) throw PeerError("[on_rank0] " + group.state().names.rank(0) + " " + result);
}

}  // namespace ddp
