// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/rendezvous.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/field_lines.h"
#include "ddp/base/rank_list.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/meeting/let_all_read.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/collectives/start/backend_choice.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr std::string_view kPlan = "plan";
constexpr std::string_view kFirst = "first";
constexpr std::string_view kUse = "use ";

// How often rank 0 checks whether another rank has decided.
constexpr Timeout kBetweenLooks{250};

std::string hello_key(int rank) { return fmt::format("hello/{}", rank); }
std::string given_up_key(int rank) { return fmt::format("given_up/{}", rank); }
std::string begun_key(int rank) { return fmt::format("init/{}", rank); }
std::string initialisation(std::int64_t number) { return fmt::format("init_{}", number); }
std::string key_in(std::int64_t number, std::string_view key) {
  return fmt::format("{}/{}", initialisation(number), key);
}

bool is_same_process(const Hello& one, const Hello& other) {
  return one.who.host == other.who.host && one.who.pid == other.who.pid &&
         one.who.start_time == other.who.start_time;
}

bool sender_ended(const Hello& hello) { return state_of(hello.who) == ProcessState::kEnded; }

// Writes `own` under the key unless a living process was first; returns the Hello of the owner.
Hello take(Store& store, const std::string& key, const Hello& own) {
  const std::string text = serialize(own);
  std::string found = store.compare_set(key, "", text);
  for (;;) {
    const Hello holder = parse_hello(found);
    if (found == text || !sender_ended(holder)) return holder;
    found = store.compare_set(key, found, text);
  }
}

// The number of the initialisation that this process begins. If this rank's last one produced no
// plan, the other ranks are still in it.
std::int64_t next_initialisation(Store& job, int rank) {
  const std::int64_t number = job.add(begun_key(rank), 1);
  if (number == 1 || job.has(key_in(number - 1, kPlan))) return number;
  return job.add(begun_key(rank), -1);
}

// Tells the first process, too, since it may be waiting for the others.
[[noreturn]] void refuse_second(Store& job, const RankIdentity& first, const RankIdentity& second) {
  const std::string text = fmt::format(
      "rank {} is already pid {} on host {}; pid {} on host {} came as rank {}, too: each process "
      "of a job needs a RANK of its own, and each job a MASTER_PORT of its own",
      first.rank, first.pid, first.host_name, second.pid, second.host_name, second.rank);
  const std::int64_t present = job.add(begun_key(first.rank), 0);
  job.compare_set(key_in(std::max<std::int64_t>(present, 1), kPlan), "", text);
  throw EnvironmentError(text);
}

// A process that has published its Hello may have ended since.
bool is_here(Store& store, int rank) {
  const auto hello = store.find(hello_key(rank));
  return hello && !sender_ended(parse_hello(*hello));
}

std::vector<int> missing_ranks(Store& store, int world_size) {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!is_here(store, rank)) missing.push_back(rank);
  }
  return missing;
}

// For a rank that gives up: others that have waited as long, and have ended since, were not
// missing, unless nobody else is.
void leave_out_those_who_gave_up(Store& store, std::vector<int>& missing) {
  std::vector<int> never_here = missing;
  std::erase_if(never_here, [&](int rank) { return store.has(given_up_key(rank)); });
  if (!never_here.empty()) missing = std::move(never_here);
}

// "3 of 4 ranks are here after 5 s; missing: rank 2; store at 127.0.0.1:29500".
std::string describe_missing(const std::vector<int>& missing, int world_size,
                             const StartPatience& patience) {
  const std::size_t present = static_cast<std::size_t>(world_size) - missing.size();
  std::string text =
      fmt::format("{} of {} ranks are here after {}; {}", present, world_size, patience.waited(),
                  missing.empty() ? "rank 0 has not decided yet how they go on"
                                  : "missing: " + rank_list(missing));
  if (!patience.store().empty()) text += "; store at " + patience.store();
  return text;
}

bool is_first_here(Store& store, int rank) {
  for (int other = 0; other < rank; ++other) {
    if (is_here(store, other)) return false;
  }
  return true;
}

// Call it between two waits.
void look_at_the_clock(Store& store, const Hello& self, StartPatience& patience) {
  const bool is_over = patience.is_over();
  if (!is_over && (!patience.is_due() || !is_first_here(store, self.who.rank))) return;
  std::vector<int> missing = missing_ranks(store, self.world_size);
  if (missing.empty() && self.who.rank == 0) return;  // all have just come: rank 0 decides
  if (is_over) {
    store.set(given_up_key(self.who.rank), "");
    leave_out_those_who_gave_up(store, missing);
  }
  const std::string text = "[init] " + describe_missing(missing, self.world_size, patience);
  if (is_over) {
    throw TimeoutError(text + " (the program or DDP_START_TIMEOUT sets how long to wait)");
  }
  patience.report(text);
}

std::vector<Hello> read_hellos(Store& store, int world_size) {
  std::vector<Hello> hellos;
  for (int rank = 0; rank < world_size; ++rank) {
    hellos.push_back(parse_hello(store.get(hello_key(rank))));
  }
  return hellos;
}

// Returns the hellos of all ranks once they are there. Returns none if a rank has already written
// the plan, because it refuses to go on. An ended process is waited for: another one may replace
// it.
std::vector<Hello> await_hellos(Store& store, const Hello& self, StartPatience& patience) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < self.world_size; ++rank) keys.push_back(hello_key(rank));
  for (;;) {
    const bool all_came = store.wait_for(keys, patience.slice(kBetweenLooks));
    if (store.has(kPlan)) return {};
    if (all_came) {
      std::vector<Hello> hellos = read_hellos(store, self.world_size);
      if (std::ranges::none_of(hellos, sender_ended)) return hellos;
      if (store.wait_for(kPlan, patience.slice(kBetweenLooks))) return {};
    }
    look_at_the_clock(store, self, patience);
  }
}

// Rank 0's decision: "use shm 0 0 1", with the hosts of the ranks, or the note (group_failure.h) of
// the error that all throw: an EnvironmentError where a group would throw a PeerError.
std::string make_plan(Store& store, const Hello& self, StartPatience& patience) {
  try {
    const std::vector<Hello> hellos = await_hellos(store, self, patience);
    if (hellos.empty()) return store.get(kPlan);
    std::string plan = std::string(kUse) + std::string(to_string(choose_backend(hellos)));
    for (const int host : hosts_of(hellos)) plan += " " + std::to_string(host);
    return plan;
  } catch (const std::exception& error) {
    return GroupFailure::of(error).note();
  }
}

std::string await_plan(Store& store, const Hello& self, StartPatience& patience) {
  while (!store.wait_for(kPlan, patience.slice())) look_at_the_clock(store, self, patience);
  return store.get(kPlan);
}

// A plan that says that the ranks have different world sizes; empty if this rank's equals the first
// rank's. With different ones they would wait for different ranks.
std::string compare_world_size(Store& store, const Hello& self) {
  const Hello first = take(store, std::string(kFirst), self);
  if (first.world_size == self.world_size) return "";
  const GroupFailure difference{
      GroupFailure::Kind::kMismatch,
      fmt::format("ranks differ in WORLD_SIZE: {} has {}, {} has {}", to_string(first.who),
                  first.world_size, to_string(self.who), self.world_size)};
  const std::string plan = difference.note();
  store.compare_set(kPlan, "", plan);
  return plan;
}

// Returns the plan, in the form described at make_plan().
std::string exchange(Store& store, const Hello& self, StartPatience& patience) {
  std::string refusal = compare_world_size(store, self);
  if (!refusal.empty()) return refusal;
  store.set(hello_key(self.who.rank), serialize(self));
  if (self.who.rank != 0) return await_plan(store, self, patience);
  return store.compare_set(kPlan, "", make_plan(store, self, patience));
}

std::optional<Hello> find_hello(Store& store, int rank) {
  try {
    const auto hello = store.find(hello_key(rank));
    return hello ? std::optional(parse_hello(*hello)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Plan parse_plan(const std::string& text) {
  const std::size_t blank = std::min(text.find(' '), text.size());
  const auto hosts = numbers_in<int>(text.substr(blank));
  if (!hosts) throw NetworkError("[init] this is not a plan: \"" + text + "\"");
  return {parse_backend(text.substr(0, blank)), *hosts};
}

}  // namespace

Claim claim_rank(const std::shared_ptr<Store>& job, const Hello& self) {
  const std::string key = fmt::format("rank/{}", self.who.rank);
  const std::optional<std::string> before = job->find(key);
  const Hello holder = take(*job, key, self);
  if (!is_same_process(holder, self)) refuse_second(*job, holder.who, self.who);
  const std::int64_t number = next_initialisation(*job, self.who.rank);
  return {.store = std::make_shared<PrefixStore>(initialisation(number), job),
          .is_later = number > 1 || (before && !is_same_process(parse_hello(*before), self))};
}

void refuse_initialisation_without(Store& attempt, int rank, int world_size,
                                   const std::string& text) {
  std::int64_t number = std::stoll(attempt.find(begun_key(rank)).value_or("0"));
  if (number == 0 || attempt.has(key_in(number, kPlan))) ++number;  // the next one
  const auto first = attempt.find(key_in(number, kFirst));
  // The others may have formed a smaller world, without the rank.
  if (!first || parse_hello(*first).world_size != world_size) return;
  attempt.compare_set(key_in(number, kPlan), "", text);
}

Plan agree_on_plan(Store& store, const Hello& self, StartPatience& patience) {
  const std::string plan = exchange(store, self, patience);
  if (plan.starts_with(kUse)) return parse_plan(plan.substr(kUse.size()));
  let_all_read(store, self.who.rank, self.world_size);
  const GroupFailure failure = GroupFailure::from_note(plan);
  if (failure.kind == GroupFailure::Kind::kPeer) throw EnvironmentError(failure.text());
  std::rethrow_exception(failure.error());
}

void check_neighbours(Store& store, int rank, const Plan& plan,
                      const std::function<bool()>& has_come) {
  const int host = plan.hosts.at(static_cast<std::size_t>(rank));
  for (int other = 0; other < static_cast<int>(plan.hosts.size()); ++other) {
    if (other == rank || plan.hosts[static_cast<std::size_t>(other)] != host) continue;
    const auto hello = find_hello(store, other);
    if (!hello || !sender_ended(*hello) || has_come()) continue;
    throw PeerError("[init] " + to_string(hello->who) +
                    " died before all ranks were connected with each other");
  }
}

}  // namespace ddp
