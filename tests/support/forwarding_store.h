// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/store/store.h"

namespace ddp::test {

// Passes everything on to another store; the base of stores that do one thing differently.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::string get(std::string_view key, Timeout timeout) override {
    return store_->get(key, timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return store_->add(key, delta);
  }
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    return store_->compare_set(key, expected, desired);
  }
  void wait(std::span<const std::string> keys, Timeout timeout) override {
    store_->wait(keys, timeout);
  }
  bool check(std::span<const std::string> keys) override { return store_->check(keys); }
  bool delete_key(std::string_view key) override { return store_->delete_key(key); }
  Timeout timeout() const override { return store_->timeout(); }

 protected:
  [[nodiscard]] const std::shared_ptr<Store>& store() const { return store_; }

 private:
  std::shared_ptr<Store> store_;
};

}  // namespace ddp::test
