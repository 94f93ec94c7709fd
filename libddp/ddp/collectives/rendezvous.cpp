// SPDX-License-Identifier: MIT
#include "ddp/collectives/rendezvous.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/collectives/backend_choice.h"
#include "ddp/collectives/let_all_read.h"
#include "ddp/collectives/rank_identity.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr std::string_view kPlan = "plan";
constexpr std::string_view kUse = "use ";
constexpr std::string_view kMismatch = "mismatch: ";
constexpr std::string_view kTimeout = "timeout: ";

// Between two looks of rank 0 whether somebody else has decided.
constexpr Timeout kBetweenLooks{250};

std::string hello_key(int rank) { return fmt::format("hello/{}", rank); }
std::string initialisation(std::int64_t number) { return fmt::format("init_{}", number); }

bool is_same_process(const Hello& one, const Hello& other) {
  return one.host == other.host && one.pid == other.pid;
}

bool has_ended(const Hello& hello) {
  return state_of({.host = hello.host, .pid = hello.pid}) == ProcessState::kEnded;
}

// Writes `own` under the key unless somebody who lives was first; returns whose it is.
Hello take(Store& store, const std::string& key, const Hello& own) {
  const std::string text = serialize(own);
  std::string found = store.compare_set(key, "", text);
  for (;;) {
    const Hello holder = parse_hello(found);
    if (found == text || !has_ended(holder)) return holder;
    found = store.compare_set(key, found, text);
  }
}

// The number of the initialisation that this process begins. If no plan came out of the last one
// of this rank, the others are still in it.
std::int64_t next_initialisation(Store& job, int rank) {
  const std::string counter = fmt::format("init/{}", rank);
  const std::int64_t number = job.add(counter, 1);
  if (number == 1 || job.has(fmt::format("{}/{}", initialisation(number - 1), kPlan))) {
    return number;
  }
  return job.add(counter, -1);
}

// The process that has the rank may be waiting for the others.
[[noreturn]] void refuse_second(Store& job, const Hello& first, const Hello& second) {
  const std::string text = fmt::format(
      "rank {} is already pid {} on host {}; pid {} on host {} came as rank {}, too: each process "
      "of a job needs a RANK of its own, and each job a MASTER_PORT of its own",
      first.rank, first.pid, first.host_name, second.pid, second.host_name, second.rank);
  const std::int64_t present = job.add(fmt::format("init/{}", first.rank), 0);
  job.compare_set(fmt::format("{}/{}", initialisation(std::max<std::int64_t>(present, 1)), kPlan),
                  "", text);
  throw EnvironmentError(text);
}

// A process that has said hello may have ended since.
bool is_here(Store& store, int rank) {
  return store.has(hello_key(rank)) && !has_ended(parse_hello(store.get(hello_key(rank))));
}

std::vector<int> missing_ranks(Store& store, int world_size) {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!is_here(store, rank)) missing.push_back(rank);
  }
  return missing;
}

std::string list_of(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 16;
  const auto shown = std::span(ranks).first(std::min(ranks.size(), kShown));
  std::string text = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(shown, ", "));
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

// "3 of 4 ranks are here after 5 s; missing: rank 2; store at 127.0.0.1:29500".
std::string describe_missing(const std::vector<int>& missing, int world_size,
                             const StartPatience& patience) {
  const std::size_t present = static_cast<std::size_t>(world_size) - missing.size();
  std::string text =
      fmt::format("{} of {} ranks are here after {}; {}", present, world_size, patience.waited(),
                  missing.empty() ? "rank 0 has not decided yet how they go on"
                                  : "missing: " + list_of(missing));
  if (!patience.store().empty()) text += "; store at " + patience.store();
  return text;
}

bool is_first_here(Store& store, int rank) {
  for (int other = 0; other < rank; ++other) {
    if (is_here(store, other)) return false;
  }
  return true;
}

// To be called between two waits.
void look_at_the_clock(Store& store, const Hello& self, StartPatience& patience) {
  const bool is_over = patience.is_over();
  if (!is_over && (!patience.is_due() || !is_first_here(store, self.rank))) return;
  const std::vector<int> missing = missing_ranks(store, self.world_size);
  if (missing.empty() && self.rank == 0) return;  // they have come just now: it is to decide
  const std::string text = "[init] " + describe_missing(missing, self.world_size, patience);
  if (is_over) throw TimeoutError(text);
  patience.report(text);
}

bool have_come(Store& store, const std::vector<std::string>& keys, Timeout timeout) {
  try {
    store.wait(keys, timeout);
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

std::vector<Hello> read_hellos(Store& store, int world_size) {
  std::vector<Hello> hellos;
  for (int rank = 0; rank < world_size; ++rank) {
    hellos.push_back(parse_hello(store.get(hello_key(rank))));
  }
  return hellos;
}

// Returns the hellos of all ranks once they are here; none if one of them has made the plan, since
// it refuses to go on. Who has ended is waited for: another process may come in its place.
std::vector<Hello> await_hellos(Store& store, const Hello& self, StartPatience& patience) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < self.world_size; ++rank) keys.push_back(hello_key(rank));
  const std::vector<std::string> plan = {std::string(kPlan)};
  for (;;) {
    const bool all_came = have_come(store, keys, patience.slice(kBetweenLooks));
    if (store.check(plan)) return {};
    if (all_came) {
      std::vector<Hello> hellos = read_hellos(store, self.world_size);
      if (std::ranges::none_of(hellos, has_ended)) return hellos;
      if (have_come(store, plan, patience.slice(kBetweenLooks))) return {};
    }
    look_at_the_clock(store, self, patience);
  }
}

// Rank 0's decision: "use shm 0 0 1", with the hosts of the ranks, or what everybody is to throw:
// "mismatch: " or "timeout: " and the text of that error, or the text of an EnvironmentError.
std::string make_plan(Store& store, const Hello& self, StartPatience& patience) {
  try {
    const std::vector<Hello> hellos = await_hellos(store, self, patience);
    if (hellos.empty()) return store.get(kPlan);
    std::string plan = std::string(kUse) + std::string(to_string(choose_backend(hellos)));
    for (const int host : hosts_of(hellos)) plan += " " + std::to_string(host);
    return plan;
  } catch (const MismatchError& error) {
    return std::string(kMismatch) + describe(error);
  } catch (const TimeoutError& error) {
    return std::string(kTimeout) + describe(error);
  } catch (const std::exception& error) {
    return describe(error);
  }
}

std::string await_plan(Store& store, const Hello& self, StartPatience& patience) {
  const std::vector<std::string> keys = {std::string(kPlan)};
  while (!have_come(store, keys, patience.slice())) look_at_the_clock(store, self, patience);
  return store.get(kPlan);
}

// A plan that says that the ranks differ in their world size; empty if this one has that of the
// first. Without the same one they would wait for different ranks.
std::string compare_world_size(Store& store, const Hello& self) {
  const Hello first = take(store, "first", self);
  if (first.world_size == self.world_size) return "";
  const std::string plan =
      fmt::format("{}ranks differ in WORLD_SIZE: {} has {}, {} has {}", kMismatch, to_string(first),
                  first.world_size, to_string(self), self.world_size);
  store.compare_set(kPlan, "", plan);
  return plan;
}

// What this rank learns; a plan, as above.
std::string exchange(Store& store, const Hello& self, StartPatience& patience) {
  std::string refusal = compare_world_size(store, self);
  if (!refusal.empty()) return refusal;
  store.set(hello_key(self.rank), serialize(self));
  if (self.rank != 0) return await_plan(store, self, patience);
  return store.compare_set(kPlan, "", make_plan(store, self, patience));
}

Plan parse_plan(const std::string& text) {
  std::istringstream words(text);
  std::string backend;
  words >> backend;
  Plan plan{parse_backend(backend), {}};
  for (int host = 0; words >> host;) plan.hosts.push_back(host);
  return plan;
}

}  // namespace

std::shared_ptr<Store> claim_rank(const std::shared_ptr<Store>& job, const Hello& self) {
  const Hello holder = take(*job, fmt::format("rank/{}", self.rank), self);
  if (!is_same_process(holder, self)) refuse_second(*job, holder, self);
  const std::int64_t number = next_initialisation(*job, self.rank);
  return std::make_shared<PrefixStore>(initialisation(number), job);
}

Plan agree_on_plan(Store& store, const Hello& self, StartPatience& patience) {
  const std::string plan = exchange(store, self, patience);
  if (plan.starts_with(kUse)) return parse_plan(plan.substr(kUse.size()));
  let_all_read(store, self.rank, self.world_size);
  if (plan.starts_with(kMismatch)) throw MismatchError(plan.substr(kMismatch.size()));
  if (plan.starts_with(kTimeout)) throw TimeoutError(plan.substr(kTimeout.size()));
  throw EnvironmentError(plan);
}

}  // namespace ddp
