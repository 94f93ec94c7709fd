// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ddp {

// What an engine's first operations are for, about which messages have advice of their own.
inline constexpr const char* kEngineConstruction = "construction of an engine";

// Texts to which events refer by number: what operations are for, such as "bucket 4: layer3.*", and
// the names of meetings. Thread-safe.
//
// Ranks number their texts differently. Between ranks, a text is known by its hash, if the other
// rank has the text, too; most do, since all run one program.
class OperationLabels {
 public:
  // label := hash (16 bits) number (16 bits). 0 means no text.
  using Label = std::uint32_t;

  // The label of a text, the same each time; 0 if there are 2^16 texts already. Looks through all
  // texts, so what needs a label often keeps it.
  [[nodiscard]] Label add(const std::string& text);
  [[nodiscard]] std::string text(Label label) const;

  [[nodiscard]] static std::uint16_t hash_of(Label label) {
    return static_cast<std::uint16_t>(label >> 16);
  }
  // The text with this hash; empty unless there is exactly one.
  [[nodiscard]] std::string text_of_hash(std::uint16_t hash) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;  // that of number n is at n - 1
};

}  // namespace ddp
