// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/failure/lost_rank.h"
#include "ddp/collectives/failure/store_list.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/group_names.h"
#include "ddp/collectives/peers/rank_identity.h"

namespace ddp {

class FirstError;

// Finds the missing rank: each rank of a group writes into the store who it is, and when it leaves.
// Thread-safe.
class PeerRoll {
 public:
  explicit PeerRoll(const GroupConfig& config);

  // Announces that this rank leaves the group after this many collectives. Never throws: if the
  // store fails, the others only cannot tell that the rank left.
  void leave(std::uint64_t collectives) noexcept;

  // A rank that left the group, or that died: its process has ended. Nothing if all ranks are
  // there, as far as this rank can see. Keeps asking for half a second, since a dying
  // process loses its connections first, but stops early once `is_settled` returns true. If a rank
  // is suspected, another one is named only if it died and nothing is known of the suspect.
  [[nodiscard]] std::optional<LostRank> missing(
      const std::function<bool()>& is_settled = [] { return false; },
      std::optional<int> suspect = {}) noexcept;

  // The fate of one rank, as far as this rank can see now.
  [[nodiscard]] Fate fate_of(int rank) const noexcept;
  // The other ranks that have left, and those of this host whose processes have ended (their fate
  // is unknown while the store does not answer, since they may have left before). However large the
  // group is, this asks the store for two keys, for what is new, and for ranks whose processes have
  // ended. Their names are empty unless they are known without the store.
  [[nodiscard]] std::vector<LostRank> lost() noexcept;

  // True if a rank has left without its part of this collective, or left at all if it is a send or
  // recv. The sequence of a collective is that of FlightRecorder's events.
  [[nodiscard]] bool left_before(int rank, const CollectiveSignature& operation) const noexcept;

  // See ProcessGroup::check_on(); `origin` begins the message.
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come,
                FirstError& first_error, const std::string& origin) const;

  // "rank 1 (node7, pid 123, cpu)", several joined by "or". Unknown parts are left out.
  [[nodiscard]] std::string names(const std::vector<int>& ranks) const noexcept;

 private:
  struct Neighbour {
    int rank;  // in the group
    RankIdentity who;
  };

  [[nodiscard]] std::vector<LostRank> find_lost();
  [[nodiscard]] std::optional<LostRank> find_missing(bool also_left);
  [[nodiscard]] std::optional<LostRank> find_loss_of(int rank) const;
  [[nodiscard]] Fate find_fate(int rank) const;
  [[nodiscard]] std::string name(int rank) const;

  std::shared_ptr<Store> store_;
  int rank_;
  GroupNames names_;
  std::mutex mutex_;      // of what follows
  StoreList leavers_;     // their numbers
  StoreList neighbours_;  // of this host: their numbers and identities
  // What lost() has read so far:
  std::vector<int> known_leavers_;
  std::vector<Neighbour> known_here_;  // other ranks of this host
};

}  // namespace ddp
