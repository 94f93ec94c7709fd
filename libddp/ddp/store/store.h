// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddp/base/time.h"

namespace ddp {

// A key-value store through which ranks meet. Values are arbitrary bytes. A counter made by add()
// holds decimal text, as in PyTorch's TCPStore. Every operation that talks to a server or waits is
// bounded by the timeout given, else by timeout(), and throws TimeoutError (naming key, endpoint
// and milliseconds) or NetworkError.
//
// A Store runs one operation at a time; other threads queue behind it. To wait in one thread while
// another one works, give each thread its own clone().
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;

  // Waits until the key exists.
  [[nodiscard]] virtual std::string get(std::string_view key, Timeout timeout) = 0;

  // Adds to a counter (missing = 0) and returns its new value. Throws NetworkError if the value is
  // not a number; the store may be lost then, and later calls throw, too.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;

  // Sets the key to `desired` if it holds `expected`, or if it is missing and `expected` is empty.
  // Returns the value stored afterwards. If the key is missing and is not set, returns `expected`,
  // as PyTorch does.
  virtual std::string compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) = 0;

  // Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys, Timeout timeout) = 0;

  // True if all keys exist now.
  [[nodiscard]] virtual bool check(std::span<const std::string> keys) = 0;

  // True if the key existed.
  virtual bool delete_key(std::string_view key) = 0;

  // A second, independent connection to the same data, with a default timeout of its own.
  [[nodiscard]] virtual std::shared_ptr<Store> clone(Timeout timeout) const = 0;

  // The timeout of operations that are called without one.
  [[nodiscard]] virtual Timeout timeout() const = 0;

  [[nodiscard]] std::shared_ptr<Store> clone() const { return clone(timeout()); }
  [[nodiscard]] std::string get(std::string_view key) { return get(key, timeout()); }
  void wait(std::span<const std::string> keys) { wait(keys, timeout()); }
  // Like wait(), but returns false if some key does not exist in time.
  [[nodiscard]] bool wait_for(std::span<const std::string> keys, Timeout timeout);
  [[nodiscard]] bool wait_for(std::string_view key, Timeout timeout);
  [[nodiscard]] bool has(std::string_view key) {
    const std::string keys[] = {std::string(key)};
    return check(keys);
  }
  // The value of a key, or nothing if the key does not exist now. One round trip; does not wait and
  // changes nothing.
  [[nodiscard]] std::optional<std::string> find(std::string_view key);
};

inline constexpr Timeout kDefaultStoreTimeout = std::chrono::seconds(300);
// How long either end of a connection polls for the next message before it sleeps.
inline constexpr std::chrono::microseconds kDefaultStoreSpin{50};
// For a thread that talks to the store in the background, which must end soon even if the store can
// no longer be reached.
inline constexpr Timeout kBackgroundStoreTimeout = std::chrono::seconds(5);

// How much longer than its timeout an operation may take: for the answer of a server that is late.
inline constexpr Timeout kLateAnswerGrace = std::chrono::seconds(5);

}  // namespace ddp
