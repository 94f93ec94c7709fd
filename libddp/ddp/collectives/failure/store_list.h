// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddp/store/store.h"

namespace ddp {

// A list in the store to which any rank may append. "NAME" counts the entries, "NAME/1", "NAME/2",
// ... hold them. So a reader that knows n entries asks for one key, however many ranks there are,
// for the new entries, and again for those that were counted but not yet written (whose writer may
// have died in between). For one reading thread at a time.
class StoreList {
 public:
  StoreList(std::shared_ptr<Store> store, std::string name);

  void append(const std::string& entry);
  // The entries that earlier calls have not returned; a call that throws has returned none. They
  // come in order, except for those that were written late.
  [[nodiscard]] std::vector<std::string> read_new();

 private:
  [[nodiscard]] std::string key(std::int64_t entry) const;

  std::shared_ptr<Store> store_;
  std::string name_;
  std::int64_t counted_ = 0;
  std::vector<std::int64_t> unwritten_;  // of those counted
};

}  // namespace ddp
