// SPDX-License-Identifier: MIT
#include "ddp/store/prefix_store.h"

#include <utility>
#include <vector>

namespace ddp {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}

std::string PrefixStore::joined(std::string_view key) const { return prefix_ + std::string(key); }

void PrefixStore::set(std::string_view key, std::string_view value) {
  store_->set(joined(key), value);
}

std::string PrefixStore::get(std::string_view key, Timeout timeout) {
  return store_->get(joined(key), timeout);
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta) {
  return store_->add(joined(key), delta);
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) {
  return store_->compare_set(joined(key), expected, desired);
}

void PrefixStore::wait(std::span<const std::string> keys, Timeout timeout) {
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(joined(key));
  store_->wait(all, timeout);
}

bool PrefixStore::check(std::span<const std::string> keys) {
  std::vector<std::string> all;
  for (const std::string& key : keys) all.push_back(joined(key));
  return store_->check(all);
}

bool PrefixStore::delete_key(std::string_view key) { return store_->delete_key(joined(key)); }

std::shared_ptr<Store> PrefixStore::clone(Timeout timeout) const {
  return std::make_shared<PrefixStore>(prefix_.substr(0, prefix_.size() - 1),
                                       store_->clone(timeout));
}

}  // namespace ddp
