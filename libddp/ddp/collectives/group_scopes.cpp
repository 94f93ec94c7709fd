// SPDX-License-Identifier: MIT
#include "ddp/collectives/group_scopes.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/collectives/hang/solo_calls.h"

namespace ddp {

std::uint8_t new_issuer(ProcessGroup& group) {
  std::uint8_t& issuers = group.state().issuers;
  issuers = issuers == 255 ? 1 : static_cast<std::uint8_t>(issuers + 1);
  return issuers;
}

ScopedSolo::ScopedSolo(ProcessGroup& group, const char* where) : state_(group.state()) {
  check_not_solo(state_, where);
  std::vector<int> waiting = state_.config.job_ranks;
  std::erase(waiting, state_.config.job_rank(group.rank()));
  state_.config.job.solo_calls->begin(where, std::move(waiting));
  state_.solo_in = where;
}

ScopedSolo::~ScopedSolo() {
  state_.solo_in = nullptr;
  state_.config.job.solo_calls->end();
}

void check_not_solo(const GroupState& state, std::string_view call) {
  const char* where = state.solo_in;
  if (where == nullptr) where = state.config.job.solo_calls->keeps_away(state.config.job_ranks);
  if (where == nullptr) return;
  throw std::logic_error("[" + std::string(where) + "] " + std::string(call) +
                         " was called inside the function for whose end the other ranks wait, so "
                         "they would never join it: call it before or after, on all ranks");
}

}  // namespace ddp
