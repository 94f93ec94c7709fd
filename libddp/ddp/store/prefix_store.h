// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/store/store.h"

namespace ddp {

// Prepends "prefix/" to every key of another store, as PyTorch's PrefixStore does.
class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Timeout timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override;
  void wait(std::span<const std::string> keys, Timeout timeout) override;
  bool check(std::span<const std::string> keys) override;
  bool delete_key(std::string_view key) override;
  std::shared_ptr<Store> clone(Timeout timeout) const override;
  Timeout timeout() const override { return store_->timeout(); }

  using Store::clone;
  using Store::get;
  using Store::wait;

 private:
  [[nodiscard]] std::string joined(std::string_view key) const;

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace ddp
