// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/store_list.h"

#include <optional>
#include <utility>

namespace ddp {

StoreList::StoreList(std::shared_ptr<Store> store, std::string name)
    : store_(std::move(store)), name_(std::move(name)) {}

void StoreList::append(const std::string& entry) { store_->set(key(store_->add(name_, 1)), entry); }

std::vector<std::string> StoreList::read_new() {
  std::vector<std::string> entries;
  const auto count = store_->find(name_);
  const std::int64_t last = count ? std::stoll(*count) : 0;
  for (std::int64_t next = read_ + 1; next <= last; ++next) {
    auto entry = store_->find(key(next));
    if (!entry) break;
    entries.push_back(*std::move(entry));
  }
  read_ += static_cast<std::int64_t>(entries.size());
  return entries;
}

std::string StoreList::key(std::int64_t entry) const { return name_ + "/" + std::to_string(entry); }

}  // namespace ddp
