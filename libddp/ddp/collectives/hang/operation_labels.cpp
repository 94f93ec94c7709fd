// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/operation_labels.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ddp {
namespace {

constexpr std::size_t kMostTexts = 0xffff;
constexpr OperationLabels::Label kNumber = 0xffff;  // mask

// FNV-1a (Fowler, Noll, Vo), folded to 16 bits; not 0.
std::uint16_t hash(std::string_view text) {
  std::uint32_t value = 2166136261;
  for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 16777619;
  return static_cast<std::uint16_t>(std::max(1U, (value >> 16) ^ (value & 0xffff)));
}

}  // namespace

// Labels are stored one per line (see RankProgress), so line breaks are replaced.
OperationLabels::Label OperationLabels::add(const std::string& text) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const std::lock_guard lock(mutex_);
  const auto known = std::find(texts_.begin(), texts_.end(), line);
  const auto number = static_cast<Label>(known - texts_.begin() + 1);
  if (number > kMostTexts) return 0;
  const Label label = Label{hash(line)} << 16 | number;
  if (known == texts_.end()) texts_.push_back(std::move(line));
  return label;
}

std::string OperationLabels::text(Label label) const {
  const std::lock_guard lock(mutex_);
  return label == 0 ? "" : texts_.at((label & kNumber) - 1);
}

std::string OperationLabels::text_of_hash(std::uint16_t hash) const {
  if (hash == 0) return "";
  const std::lock_guard lock(mutex_);
  const auto has_hash = [&](const std::string& text) { return ddp::hash(text) == hash; };
  const auto found = std::ranges::find_if(texts_, has_hash);
  const bool is_unique = std::ranges::count_if(texts_, has_hash) == 1;
  return is_unique ? *found : "";
}

}  // namespace ddp
