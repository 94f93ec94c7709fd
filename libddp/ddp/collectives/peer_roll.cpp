// SPDX-License-Identifier: MIT
#include "ddp/collectives/peer_roll.h"

#include <sstream>
#include <thread>

#include "ddp/base/log.h"
#include "ddp/collectives/rank_identity.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr Timeout kPatience{500};
constexpr Timeout kPause{5};

std::string who(int rank) { return "who/" + std::to_string(rank); }
std::string left(int rank) { return "left/" + std::to_string(rank); }

}  // namespace

PeerRoll::PeerRoll(const GroupConfig& config)
    : store_(std::make_shared<PrefixStore>("roll", config.store->clone(kBackgroundStoreTimeout))),
      rank_(config.rank),
      world_size_(config.world_size) {
  store_->set(who(rank_), serialize(identify_self(rank_, config.device)));
}

void PeerRoll::leave() noexcept {
  try {
    store_->set(left(rank_), "");
  } catch (const std::exception& error) {
    log::debug(std::string("[peer_roll] cannot say that we leave: ") + error.what());
  }
}

std::string PeerRoll::missing() const noexcept {
  try {
    const Deadline deadline = Deadline::after(kPatience);
    std::string found = look();
    while (found.empty() && !deadline.passed()) {
      std::this_thread::sleep_for(kPause);
      found = look();
    }
    return found;
  } catch (const std::exception& error) {
    log::debug(std::string("[peer_roll] cannot ask who is missing: ") + error.what());
    return "";
  }
}

std::string PeerRoll::look() const {
  for (int other = 0; other < world_size_; ++other) {
    if (other == rank_ || !store_->has(who(other))) continue;
    RankIdentity identity;
    std::istringstream(store_->get(who(other))) >> identity;
    if (store_->has(left(other))) return to_string(identity) + " left the group";
    if (state_of(identity) == ProcessState::kEnded) return to_string(identity) + " died";
  }
  return "";
}

}  // namespace ddp
