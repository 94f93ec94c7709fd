// SPDX-License-Identifier: MIT
#include "ddp/store/hash_store.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/store/counter.h"

namespace ddp {

struct HashStore::Data {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string, std::less<>> values;

  [[nodiscard]] bool has_all(std::span<const std::string> keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [this](const std::string& key) { return values.contains(key); });
  }

  // Afterwards all keys exist, until the lock is released.
  void wait(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys,
            Timeout timeout) {
    const auto ready = [&] { return has_all(keys); };
    if (changed.wait_until(lock, Deadline::after(timeout).time_point(), ready)) return;
    throw TimeoutError("[hash_store] wait(\"" + keys.front() + "\"): timed out after " +
                       std::to_string(timeout.count()) + " ms");
  }
};

HashStore::HashStore(Timeout timeout) : HashStore(std::make_shared<Data>(), timeout) {}

HashStore::HashStore(std::shared_ptr<Data> data, Timeout timeout)
    : data_(std::move(data)), timeout_(timeout) {}

void HashStore::set(std::string_view key, std::string_view value) {
  const std::lock_guard lock(data_->mutex);
  data_->values.insert_or_assign(std::string(key), std::string(value));
  data_->changed.notify_all();
}

std::string HashStore::get(std::string_view key, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  std::unique_lock lock(data_->mutex);
  data_->wait(lock, keys, timeout);
  return data_->values.at(keys[0]);
}

std::int64_t HashStore::add(std::string_view key, std::int64_t delta) {
  const std::lock_guard lock(data_->mutex);
  const auto entry = data_->values.try_emplace(std::string(key), "0").first;
  const std::int64_t sum = add_to_text(entry->second, delta);
  data_->changed.notify_all();
  return sum;
}

std::string HashStore::compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired) {
  const std::lock_guard lock(data_->mutex);
  const auto found = data_->values.find(key);
  const bool missing = found == data_->values.end();
  if (missing && !expected.empty()) return std::string(expected);
  if (!missing && found->second != expected) return found->second;
  data_->values.insert_or_assign(std::string(key), std::string(desired));
  data_->changed.notify_all();
  return std::string(desired);
}

void HashStore::wait(std::span<const std::string> keys, Timeout timeout) {
  std::unique_lock lock(data_->mutex);
  data_->wait(lock, keys, timeout);
}

bool HashStore::check(std::span<const std::string> keys) {
  const std::lock_guard lock(data_->mutex);
  return data_->has_all(keys);
}

bool HashStore::delete_key(std::string_view key) {
  const std::lock_guard lock(data_->mutex);
  return data_->values.erase(std::string(key)) > 0;
}

std::shared_ptr<Store> HashStore::clone(Timeout timeout) const {
  return std::shared_ptr<Store>(new HashStore(data_, timeout));
}

}  // namespace ddp
