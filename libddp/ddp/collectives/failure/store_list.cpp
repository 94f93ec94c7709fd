// SPDX-License-Identifier: MIT
#include "ddp/collectives/failure/store_list.h"

#include <optional>
#include <utility>

namespace ddp {

StoreList::StoreList(std::shared_ptr<Store> store, std::string name)
    : store_(std::move(store)), name_(std::move(name)) {}

void StoreList::append(const std::string& entry) { store_->set(key(store_->add(name_, 1)), entry); }

std::vector<std::string> StoreList::read_new() {
  const auto count = store_->find(name_);
  const std::int64_t last = count ? std::stoll(*count) : 0;
  std::vector<std::int64_t> wanted = unwritten_;
  for (std::int64_t next = counted_ + 1; next <= last; ++next) wanted.push_back(next);
  std::vector<std::string> entries;
  std::vector<std::int64_t> unwritten;
  for (const std::int64_t number : wanted) {
    if (auto entry = store_->find(key(number))) {
      entries.push_back(*std::move(entry));
    } else {
      unwritten.push_back(number);
    }
  }
  counted_ = last;
  unwritten_ = std::move(unwritten);
  return entries;
}

std::string StoreList::key(std::int64_t entry) const { return name_ + "/" + std::to_string(entry); }

}  // namespace ddp
