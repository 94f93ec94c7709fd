// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/operation_labels.h"

#include <algorithm>

namespace ddp {

// Labels are stored one per line (see RankProgress), so line breaks are replaced.
OperationLabels::Label OperationLabels::add(const std::string& text) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const std::lock_guard lock(mutex_);
  const auto known = std::find(texts_.begin(), texts_.end(), line);
  const auto index = known - texts_.begin();
  if (known == texts_.end()) texts_.push_back(std::move(line));
  return static_cast<Label>(index + 1);
}

std::string OperationLabels::text(Label label) const {
  const std::lock_guard lock(mutex_);
  return label == 0 ? "" : texts_.at(label - 1);
}

}  // namespace ddp
