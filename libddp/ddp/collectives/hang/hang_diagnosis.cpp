// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/hang_diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
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
  if (is_transfer(hang.signature.kind)) return false;
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

// The ranks that have submitted least; others may be behind only because of them. A rank that waits
// in another group is itself behind because of some other rank, so ranks that do not wait are
// preferred.
Culprits furthest_behind(const Hang& hang, std::span<const Witness> members) {
  std::uint64_t least = hang.signature.sequence;
  for (const Witness& member : members) least = std::min(least, submitted_by(member, hang.group));
  const auto is_last = [&](const Witness& member) {
    return !has_joined(hang, member) && submitted_by(member, hang.group) == least;
  };
  Culprits idle = those(members, [&](const Witness& m) { return is_last(m) && !waits_itself(m); });
  return idle.empty() ? those(members, is_last) : idle;
}

Culprits find_culprits(const Hang& hang, std::span<const Witness> members) {
  // A send or recv involves only its peer.
  if (is_transfer(hang.signature.kind)) {
    return {&members[static_cast<std::size_t>(hang.signature.root)]};
  }
  Culprits found =
      those(members, [](const Witness& m) { return m.state == ProcessState::kStopped; });
  if (found.empty()) found = furthest_behind(hang, members);
  if (!found.empty()) return found;
  return those(members, [](const Witness& m) {
    return m.state == ProcessState::kEnded || m.silence > Timeout(0);
  });
}

double seconds(Timeout time) { return static_cast<double>(time.count()) / 1000; }

// "is stopped (SIGSTOP) and has not joined all_reduce #457 (...)".
std::string condition(const Hang& hang, const Witness& culprit) {
  const bool joined = has_joined(hang, culprit);
  const std::string& operation = hang.operation;
  const std::string in_or_not = (joined ? " in " : " and has not joined ") + operation;
  if (culprit.state == ProcessState::kStopped) return "is stopped (SIGSTOP)" + in_or_not;
  if (culprit.state == ProcessState::kEnded) {
    return (joined ? "has ended in " : "has ended and will not join ") + operation;
  }
  if (culprit.silence > Timeout(0)) {
    return fmt::format("has given no sign of life for {:.1f} s{}", seconds(culprit.silence),
                       in_or_not);
  }
  return "has not joined " + operation;
}

// What a rank was seen at may be a second old, and so some steps behind.
std::string in_step(const Hang& hang) {
  return hang.step == 0 ? "" : fmt::format(" in step {}", hang.step);
}

std::string the_same_holds(const Culprits& culprits) {
  if (culprits.size() < 2) return "";
  std::vector<int> ranks;
  for (std::size_t i = 1; i < culprits.size(); ++i) ranks.push_back(culprits[i]->rank);
  return "; the same holds for " + rank_list(ranks);
}

}  // namespace

std::string diagnose(const Hang& hang, std::span<const Witness> members) {
  const Culprits culprits = find_culprits(hang, members);
  const std::size_t waiting =
      is_transfer(hang.signature.kind) ? 1 : members.size() - culprits.size();
  const std::string waits = fmt::format("{} rank{} waiting {:.1f} s{}", waiting,
                                        waiting == 1 ? "" : "s", seconds(hang.age), in_step(hang));
  if (culprits.empty()) {
    return "all ranks have joined " + hang.operation + ", which does not end; " + waits;
  }
  const Witness& first = *culprits.front();
  const std::string who =
      first.progress ? to_string(first.progress->who) : fmt::format("rank {}", first.rank);
  const std::string seen =
      first.progress ? last_seen(*first.progress) : "it has not reported anything yet";
  return fmt::format("{} {}{}; {}; {}", who, condition(hang, first), the_same_holds(culprits), seen,
                     waits);
}

std::string diagnose_silent_store(const Hang& hang) {
  return fmt::format(
      "the job's store does not answer, so its host (rank 0 or a launcher) is probably stopped or "
      "cut off; this rank has waited {:.1f} s in {}",
      seconds(hang.age), hang.operation);
}

}  // namespace ddp
