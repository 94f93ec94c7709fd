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
// and for the new entries only. For one reading thread at a time.
class StoreList {
 public:
  StoreList(std::shared_ptr<Store> store, std::string name);

  void append(const std::string& entry);
  // The entries that earlier calls have not returned; a call that throws has returned none. One
  // whose writer has not written it yet holds back those after it.
  [[nodiscard]] std::vector<std::string> read_new();

 private:
  [[nodiscard]] std::string key(std::int64_t entry) const;

  std::shared_ptr<Store> store_;
  std::string name_;
  std::int64_t read_ = 0;
};

}  // namespace ddp
