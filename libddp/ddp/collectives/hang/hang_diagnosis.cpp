// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/hang_diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "ddp/base/rank_list.h"

namespace ddp {
namespace {

using Culprits = std::vector<const Witness*>;

std::uint64_t submitted_by(const Witness& member, const std::string& group) {
  const GroupProgress* progress = member.progress ? member.progress->find(group) : nullptr;
  return progress == nullptr ? 0 : progress->collectives;
}

bool has_joined(const Hang& hang, const Witness& member) {
  if (!hang.transfers.empty()) return false;
  return submitted_by(member, hang.group) >= hang.signature.sequence;
}

template <class Predicate>
Culprits those(std::span<const Witness> members, const Predicate& predicate) {
  Culprits found;
  for (const Witness& member : members) {
    if (predicate(member)) found.push_back(&member);
  }
  return found;
}

bool waits_itself(const Witness& member) {
  return member.progress &&
         std::ranges::any_of(member.progress->groups,
                             [](const GroupProgress& group) { return !group.waits_for.empty(); });
}

bool is_stopped(const Witness& member) { return member.state == ProcessState::kStopped; }
bool has_ended(const Witness& member) { return member.state == ProcessState::kEnded; }
bool is_silent(const Witness& member) { return member.silence > Timeout(0); }
bool is_gone(const Witness& member) { return has_ended(member) || is_silent(member); }
bool is_stopped_or_gone(const Witness& member) { return is_stopped(member) || is_gone(member); }
// Its process runs on this host: it has lost the store, and what it submits is no longer known.
bool is_cut_off(const Witness& member) {
  return is_silent(member) && member.state == ProcessState::kAlive;
}

// The ranks that have submitted least; others may be behind only because of them. A rank that waits
// in another group is itself behind because of some other rank, so ranks that do not wait are
// preferred.
Culprits furthest_behind(const Hang& hang, std::span<const Witness> members) {
  std::uint64_t least = hang.signature.sequence;
  for (const Witness& member : members) {
    if (!is_cut_off(member)) least = std::min(least, submitted_by(member, hang.group));
  }
  const auto is_last = [&](const Witness& member) {
    return !is_cut_off(member) && !has_joined(hang, member) &&
           submitted_by(member, hang.group) == least;
  };
  const Culprits last = those(members, is_last);
  Culprits free = those(members, [&](const Witness& m) { return is_last(m) && !waits_itself(m); });
  if (free.empty() && !last.empty()) free = those(members, is_cut_off);  // the last may wait for it
  return free.empty() ? last : free;
}

Culprits find_culprits(const Hang& hang, std::span<const Witness> members) {
  Culprits found = those(members, is_stopped);
  if (found.empty()) found = furthest_behind(hang, members);
  return found.empty() ? those(members, is_gone) : found;
}

// Of ranks that are equally far behind, one that has ended stays there; others may only be late.
Culprits worst_of(const Culprits& all) {
  for (const auto is_worse : {has_ended, is_silent}) {
    Culprits worst;
    std::ranges::copy_if(all, std::back_inserter(worst), is_worse,
                         [](const Witness* each) -> const Witness& { return *each; });
    if (!worst.empty()) return worst;
  }
  return all;
}

double seconds(Timeout time) { return static_cast<double>(time.count()) / 1000; }

// "is stopped (SIGSTOP) and has not joined all_reduce #457 (...)".
std::string condition(const Hang& hang, const Witness& culprit) {
  const bool joined = has_joined(hang, culprit);
  const std::string& operation = hang.operation;
  const std::string in_or_not = (joined ? " in " : " and has not joined ") + operation;
  if (is_stopped(culprit)) return "is stopped (SIGSTOP)" + in_or_not;
  if (has_ended(culprit)) {
    return (joined ? "has ended in " : "has ended and will not join ") + operation;
  }
  if (is_cut_off(culprit)) {
    return fmt::format("runs, but has told nothing for {:.1f} s, as if it had lost the store{}",
                       seconds(culprit.silence),
                       joined ? " in " + operation : "; it may not have joined " + operation);
  }
  if (is_silent(culprit)) {
    return fmt::format("has given no sign of life for {:.1f} s{}", seconds(culprit.silence),
                       in_or_not);
  }
  return "has not joined " + operation;
}

// A rank's last known position may be a second old, and so some steps behind.
std::string in_step(const Hang& hang) {
  return hang.step == 0 ? "" : fmt::format(" in step {}", hang.step);
}

std::string the_same_holds(const Culprits& culprits) {
  if (culprits.size() < 2) return "";
  std::vector<int> ranks;
  for (std::size_t i = 1; i < culprits.size(); ++i) ranks.push_back(culprits[i]->rank);
  return "; the same holds for " + rank_list(ranks);
}

std::string how_many_wait(const Hang& hang, std::size_t ranks) {
  return fmt::format("{} waiting {:.1f} s{}", counted(ranks, "rank"), seconds(hang.age),
                     in_step(hang));
}

// `culprits` are not empty.
std::string blame(const Culprits& culprits, const Hang& hang, const std::string& waits) {
  const Witness& first = *culprits.front();
  const std::string who =
      first.progress ? to_string(first.progress->who) : fmt::format("rank {}", first.rank);
  std::string seen =
      first.progress ? last_seen(*first.progress) : "it has not reported anything yet";
  if (first.told_before > Timeout(0))
    seen += fmt::format(", {:.1f} s ago", seconds(first.told_before));
  return fmt::format("{} {}{}; {}; {}", who, condition(hang, first), the_same_holds(culprits), seen,
                     waits);
}

// Two sends that meet, or two receives, wait for the call that follows on the other rank.
std::string advice_on_crossing(const Hang& hang, const Witness& peer) {
  const GroupProgress* theirs = peer.progress ? peer.progress->find(hang.group) : nullptr;
  if (hang.transfers.size() > 1 || theirs == nullptr) return "";
  const std::string own = std::string(to_string(hang.signature.kind)) + ' ';
  const std::string to_this_rank = " rank " + std::to_string(hang.self) + ' ';
  const bool meet = theirs->waits_for.starts_with(own) &&
                    (theirs->waits_for + ' ').find(to_this_rank) != std::string::npos;
  return meet ? "; a send and a recv that cross need one batch()" : "";
}

std::string diagnose_transfers(const Hang& hang, std::span<const Witness> members) {
  const std::string waits = how_many_wait(hang, 1);
  const auto peer_of = [&](const Hang::Transfer& transfer) -> const Witness& {
    return members[static_cast<std::size_t>(transfer.peer)];
  };
  const auto blame_peer = [&](const Hang::Transfer& transfer) {
    Hang of_peer = hang;
    of_peer.operation = transfer.operation;
    return blame({&peer_of(transfer)}, of_peer, waits);
  };
  for (const auto explains : {is_stopped, is_gone}) {
    const auto found = std::ranges::find_if(hang.transfers, explains, peer_of);
    if (found != hang.transfers.end()) return blame_peer(*found);
  }
  std::set<int> peers;
  for (const Hang::Transfer& transfer : hang.transfers) peers.insert(peer_of(transfer).rank);
  if (peers.size() == 1) {
    const Hang::Transfer& transfer = hang.transfers.front();
    return blame_peer(transfer) + advice_on_crossing(hang, peer_of(transfer));
  }
  return fmt::format(
      "at least one of {} has not joined a batch of {} sends and receives, beginning with {}; {}",
      rank_list(std::vector(peers.begin(), peers.end())), hang.transfers.size(), hang.operation,
      waits);
}

bool are_on_several_hosts(std::span<const Witness> members) {
  std::set<std::string> hosts;
  for (const Witness& member : members) {
    if (member.progress) hosts.insert(member.progress->who.host);
  }
  return hosts.size() > 1;
}

std::string does_it_drop(const char* where) {
  return fmt::format(
      " (does something between {} drop packets, such as a firewall or an MTU that "
      "is not the same everywhere?)",
      where);
}

// Two ranks that wait for each other's data.
struct Impasse {
  const Witness* one;
  const Witness* other;
};

bool awaits(const Hang& hang, const Witness& member, const Witness& peer) {
  const GroupProgress* progress = member.progress ? member.progress->find(hang.group) : nullptr;
  return progress != nullptr && std::ranges::count(progress->awaited, peer.rank) > 0;
}

std::vector<Impasse> find_impasses(const Hang& hang, std::span<const Witness> members) {
  std::vector<Impasse> found;
  for (std::size_t one = 0; one < members.size(); ++one) {
    for (const Witness& other : members.subspan(one + 1)) {
      const bool is_mutual = awaits(hang, members[one], other) && awaits(hang, other, members[one]);
      if (is_mutual) found.push_back({&members[one], &other});
    }
  }
  return found;
}

// ", as do ranks 0 and 3, 1 and 2".
std::string other_pairs(std::span<const Impasse> others) {
  if (others.empty()) return "";
  constexpr std::size_t kShown = 8;
  std::string text = ", as do ranks ";
  for (std::size_t i = 0; i < std::min(others.size(), kShown); ++i) {
    text +=
        fmt::format("{}{} and {}", i == 0 ? "" : ", ", others[i].one->rank, others[i].other->rank);
  }
  return others.size() <= kShown
             ? text
             : fmt::format("{}, and {} more pairs", text, others.size() - kShown);
}

// A rank that is not concerned may be operations ahead.
std::string mutual_wait(std::span<const Impasse> impasses, const Hang& hang) {
  const Impasse& first = impasses.front();
  const std::string& theirs = first.one->progress->find(hang.group)->waits_for;
  return fmt::format("{} and {} wait for each other's data in {}{}",
                     to_string(first.one->progress->who), to_string(first.other->progress->who),
                     theirs.empty() ? hang.operation : theirs, other_pairs(impasses.subspan(1)));
}

}  // namespace

std::string diagnose(const Hang& hang, std::span<const Witness> members) {
  if (!hang.transfers.empty()) return diagnose_transfers(hang, members);
  const std::vector<Impasse> impasses = find_impasses(hang, members);
  const bool is_any_gone = std::ranges::any_of(members, is_stopped_or_gone);
  if (!impasses.empty() && !is_any_gone) {
    return mutual_wait(impasses, hang) + does_it_drop("them") + "; " +
           how_many_wait(hang, members.size());
  }
  const Culprits culprits = find_culprits(hang, members);
  const std::string waits = how_many_wait(hang, members.size() - culprits.size());
  if (culprits.empty()) {
    const std::string remark = are_on_several_hosts(members) ? does_it_drop("the hosts") : "";
    return "all ranks have joined " + hang.operation + ", which does not end" + remark + "; " +
           waits;
  }
  return blame(worst_of(culprits), hang, waits);
}

std::string diagnose_silent_store(const Hang& hang) {
  return fmt::format(
      "the job's store does not answer, so its host (rank 0 or a launcher) is probably stopped or "
      "cut off; this rank has waited {:.1f} s in {}",
      seconds(hang.age), hang.operation);
}

}  // namespace ddp
