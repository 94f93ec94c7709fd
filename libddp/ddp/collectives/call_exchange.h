// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ddp/collectives/collective.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// For ranks that have found out that they called different collectives, but not which: each tells
// the others in the store.
class CallExchange {
 public:
  explicit CallExchange(const GroupConfig& config);

  // The sentence for the mismatch, with what another rank has called, if one tells within a second.
  // Never throws for want of the store.
  [[nodiscard]] std::string mismatch(const CollectiveSignature& own);

 private:
  [[nodiscard]] std::string ask(const CollectiveSignature& own);
  [[nodiscard]] std::string look(const CollectiveSignature& own);
  [[nodiscard]] std::optional<CollectiveSignature> call_of(int rank);

  std::shared_ptr<Store> store_;
  int rank_;
  int world_size_;
};

}  // namespace ddp
