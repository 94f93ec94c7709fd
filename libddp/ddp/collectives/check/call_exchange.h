// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/group_names.h"

namespace ddp {

// For ranks that know that they called different collectives, but not which: each publishes its own
// call in the store.
class CallExchange {
 public:
  explicit CallExchange(const GroupConfig& config);

  // The text of the MismatchError, with another rank's call if one publishes it within a second. If
  // the store fails, returns the text without it.
  [[nodiscard]] std::string mismatch(const CollectiveSignature& own);

 private:
  [[nodiscard]] std::string ask(const CollectiveSignature& own);
  [[nodiscard]] std::string look(const CollectiveSignature& own);
  [[nodiscard]] std::optional<CollectiveSignature> call_of(int rank);

  std::shared_ptr<Store> store_;
  int rank_;
  int world_size_;
  GroupNames names_;
};

}  // namespace ddp
