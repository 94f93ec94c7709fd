// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/store/store.h"

namespace ddp {

// A store inside one process, for ranks that are threads. Thread-safe; a wait does not block other
// threads. clone() shares the data.
class HashStore final : public Store {
 public:
  explicit HashStore(Timeout timeout = kDefaultStoreTimeout);

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Timeout timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override;
  void wait(std::span<const std::string> keys, Timeout timeout) override;
  bool check(std::span<const std::string> keys) override;
  bool delete_key(std::string_view key) override;
  std::shared_ptr<Store> clone(Timeout timeout) const override;
  Timeout timeout() const override { return timeout_; }

  using Store::clone;
  using Store::get;
  using Store::wait;

 private:
  struct Data;
  HashStore(std::shared_ptr<Data> data, Timeout timeout);

  std::shared_ptr<Data> data_;
  Timeout timeout_;
};

}  // namespace ddp
