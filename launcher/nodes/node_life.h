// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ddp/base/threads/life_sign.h"
#include "launcher/nodes/node_keys.h"

namespace ddp::launcher {

// Whether the launcher registered under a node's rank is alive. While the nodes meet, another
// launcher learns it from a counter in the store. Look at it more often than every second.
class NodeLife {
 public:
  // What the store has under node_key() and alive_key(). A new entry starts everything anew.
  void look(const std::string& entry, std::int64_t signs) {
    if (entry != entry_) *this = NodeLife(entry, signs);
    has_moved_ = has_moved_ || signs != first_;
    silence_ = life_.silence(static_cast<std::uint64_t>(signs));
  }
  [[nodiscard]] const std::string& entry() const { return entry_; }
  // True if it has certainly lived since the first look.
  [[nodiscard]] bool has_moved() const { return has_moved_; }
  [[nodiscard]] bool is_dead() const { return !entry_.empty() && silence_ >= kSilenceOfDead; }

  NodeLife() = default;

 private:
  // A launcher may be slow for less than that.
  static constexpr Timeout kSilenceOfDead = 6 * kSignPeriod;

  NodeLife(std::string entry, std::int64_t signs) : entry_(std::move(entry)), first_(signs) {}

  std::string entry_;
  std::int64_t first_ = 0;
  bool has_moved_ = false;
  Timeout silence_{};
  LifeSign life_{2 * kSignPeriod};
};

}  // namespace ddp::launcher
