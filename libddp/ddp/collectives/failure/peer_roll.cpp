// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/peer_roll.h"

#include <algorithm>
#include <optional>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/collectives/failure/failure_sentences.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr Timeout kRollPatience{500};
constexpr Timeout kRollPause{5};

std::string who(int rank) { return "who/" + std::to_string(rank); }
std::string left(int rank) { return "left/" + std::to_string(rank); }

// What f() returns or, if it throws, as when the store does not answer, the fallback.
template <class T, class F>
T or_else(T fallback, const char* purpose, const F& f) noexcept {
  try {
    return f();
  } catch (const std::exception& error) {
    logging::debug(std::string("[peer_roll] cannot ") + purpose + ": " + error.what());
    return fallback;
  }
}

// Returns nothing if the rank has not written its identity yet.
std::optional<RankIdentity> read(Store& store, int rank) {
  const auto text = store.find(who(rank));
  return text ? std::optional(parse_rank_identity(*text)) : std::nullopt;
}

}  // namespace

PeerRoll::PeerRoll(const GroupConfig& config)
    : store_(std::make_shared<PrefixStore>("roll", config.background_store)),
      rank_(config.rank),
      names_(config),
      leavers_(store_, "leavers"),
      neighbours_(store_, "on " + host_identity()) {
  const std::string self = serialize(identify_self(config.job_rank(rank_), config.device));
  store_->set(who(rank_), self);
  neighbours_.append(std::to_string(rank_) + " " + self);
}

void PeerRoll::leave(std::uint64_t collectives) noexcept {
  or_else(false, "announce that this rank leaves", [&] {
    store_->set(left(rank_), std::to_string(collectives));
    leavers_.append(std::to_string(rank_));
    return true;
  });
}

std::optional<LostRank> PeerRoll::missing(const std::function<bool()>& is_settled,
                                          std::optional<int> suspect) noexcept {
  return or_else(std::optional<LostRank>(), "find out which rank is missing", [&] {
    std::optional<LostRank> found;
    const auto look = [&] {
      found = suspect ? find_loss_of(*suspect) : find_missing(true);
      return found || is_settled();
    };
    (void)becomes_true(look, kRollPatience, kRollPause);
    return !found && suspect ? find_missing(false) : found;
  });
}

// A rank that has left may have done its part, so a dead rank is preferred.
std::optional<LostRank> PeerRoll::find_missing(bool also_left) {
  std::optional<LostRank> found;
  for (const LostRank& each : lost()) {
    if (each.fate == Fate::kDied) return LostRank{each.rank, each.fate, name(each.rank)};
    if (each.fate == Fate::kLeft && also_left && !found) found = each;
  }
  if (found) found->name = name(found->rank);
  return found;
}

std::optional<LostRank> PeerRoll::find_loss_of(int rank) const {
  const Fate fate = find_fate(rank);
  if (fate == Fate::kUnknown) return std::nullopt;
  return LostRank{rank, fate, name(rank)};
}

// A process may leave and then end. So whether it has ended is read before whether it has left.
Fate PeerRoll::find_fate(int rank) const {
  const auto peer = read(*store_, rank);
  if (!peer) return Fate::kUnknown;
  const bool has_ended = state_of(*peer) == ProcessState::kEnded;
  if (store_->has(left(rank))) return Fate::kLeft;
  return has_ended ? Fate::kDied : Fate::kUnknown;
}

Fate PeerRoll::fate_of(int rank) const noexcept {
  return or_else(Fate::kUnknown, "find out whether a rank still runs",
                 [&] { return find_fate(rank); });
}

// As in find_fate(), whether processes have ended is read before who has left. A leaver comes into
// the list last, and may end before; so before a rank is called dead, it is asked for by itself.
std::vector<LostRank> PeerRoll::lost() noexcept {
  return or_else(std::vector<LostRank>(), "find out which ranks are lost",
                 [this] { return find_lost(); });
}

std::vector<LostRank> PeerRoll::find_lost() {
  constexpr const char* kPurpose = "read which ranks have left";
  const std::lock_guard lock(mutex_);
  const bool knows_neighbours = or_else(false, kPurpose, [this] {
    for (const std::string& text : neighbours_.read_new()) {
      const std::size_t blank = text.find(' ');
      const int rank = std::stoi(text.substr(0, blank));
      if (rank == rank_) continue;
      known_here_.push_back({rank, parse_rank_identity(text.substr(blank + 1))});
    }
    return true;
  });
  std::vector<Neighbour> ended;
  for (const Neighbour& each : known_here_) {
    if (state_of(each.who) == ProcessState::kEnded) ended.push_back(each);
  }
  const bool knows_leavers = knows_neighbours && or_else(false, kPurpose, [this] {
                               for (const std::string& rank : leavers_.read_new())
                                 known_leavers_.push_back(std::stoi(rank));
                               return true;
                             });
  std::vector<LostRank> all;
  for (const int rank : known_leavers_) {
    if (rank != rank_) all.push_back({rank, Fate::kLeft});
  }
  for (const Neighbour& each : ended) {
    if (std::ranges::count(known_leavers_, each.rank) > 0) continue;
    const Fate fate = knows_leavers ? fate_of(each.rank) : Fate::kUnknown;
    all.push_back({each.rank, fate, to_string(each.who)});
  }
  return all;
}

bool PeerRoll::left_before(int rank, const CollectiveSignature& operation) const noexcept {
  return or_else(false, "find out when a rank left", [&] {
    const auto collectives = store_->find(left(rank));
    return collectives &&
           (is_transfer(operation.kind) || std::stoull(*collectives) < operation.sequence);
  });
}

void PeerRoll::check_on(std::span<const int> awaited, const std::function<bool()>& has_come,
                        FirstError& first_error, const std::string& origin) const {
  (void)first_error.poll();
  first_error.rethrow_if_set();
  for (const int rank : awaited) {
    const Fate fate = fate_of(rank);
    if (fate == Fate::kUnknown || has_come()) continue;
    const LostRank lost{rank, fate, names({rank})};
    first_error.set(PeerError(loss_while_waiting_sentence(origin, lost, names_)));
    first_error.rethrow_if_set();
  }
}

std::string PeerRoll::name(int rank) const {
  const auto peer = read(*store_, rank);
  return peer ? to_string(*peer) : names_.rank(rank);
}

std::string PeerRoll::names(const std::vector<int>& ranks) const noexcept {
  std::string all;
  or_else(false, "look up the hosts and pids of ranks", [&] {
    for (const int rank : ranks) all += (all.empty() ? "" : " or ") + name(rank);
    return true;
  });
  return all;
}

}  // namespace ddp
