// SPDX-License-Identifier: MIT
//
// What a rank publishes about itself, about once a second and in one value of the store:
//
//   progress := identity  heartbeat LF time LF step LF is_in_step LF has_left_step LF is_inside LF
//               busy_with LF group*
//   group    := collectives LF name LF waits_for LF awaited LF
//   awaited  := "3 7", say
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/collectives/peers/rank_identity.h"

namespace ddp {

struct GroupProgress {
  std::string name;
  std::uint64_t collectives = 0;  // collectives submitted so far
  std::string waits_for;          // an operation that has been pending for long; else empty
  std::vector<int> awaited = {};  // see HangContact
};

struct RankProgress {
  RankIdentity who;
  std::uint64_t heartbeat = 0;
  std::int64_t time_ms = 0;  // when this was published, by its host's steady clock
  std::uint64_t step = 0;    // 0: none has begun
  bool is_in_step = false;
  bool has_left_step = false;  // in the middle
  bool is_inside = false;      // the library
  std::string busy_with = {};  // outside of it, see busy_with(); may be empty
  std::vector<GroupProgress> groups = {};

  // Null if the rank is not, or no longer, in that group.
  [[nodiscard]] const GroupProgress* find(const std::string& group) const;
};

[[nodiscard]] std::string serialize(const RankProgress& progress);
// Throws NetworkError for anything else.
[[nodiscard]] RankProgress parse_rank_progress(const std::string& text);

// "last seen in step 50, outside the library, saving model.safetensors for 5.1 s".
[[nodiscard]] std::string last_seen(const RankProgress& progress);

}  // namespace ddp
