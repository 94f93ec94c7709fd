// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "support/forwarding_store.h"

namespace ddp::test {

// A store that reports the requested key before the caller has the reply: the first key of a
// check(), or that of an add() or a compare_set(), by which find() reads.
class ObservedStore : public ForwardingStore {
 public:
  using Observer = std::function<void(const std::string& key)>;

  ObservedStore(std::shared_ptr<Store> store, Observer observer)
      : ForwardingStore(std::move(store)), observer_(std::move(observer)) {}

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    const std::int64_t sum = ForwardingStore::add(key, delta);
    observer_(std::string(key));
    return sum;
  }
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    std::string stored = ForwardingStore::compare_set(key, expected, desired);
    observer_(std::string(key));
    return stored;
  }
  bool check(std::span<const std::string> keys) override {
    const bool exist = ForwardingStore::check(keys);
    observer_(keys[0]);
    return exist;
  }
  std::shared_ptr<Store> clone(Timeout timeout) const override {
    return std::make_shared<ObservedStore>(store()->clone(timeout), observer_);
  }

 private:
  Observer observer_;
};

}  // namespace ddp::test
