// SPDX-License-Identifier: MIT
#include "ddp/store/tcp_store.h"

#include <algorithm>
#include <mutex>
#include <type_traits>

#include "ddp/base/error.h"
#include "ddp/base/threads/timed_mutex.h"
#include "ddp/store/lasting_connection.h"
#include "ddp/store/store_connection.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

std::string quoted_list(std::span<const std::string> keys) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), kShown); ++i) {
    text += (i == 0 ? "\"" : ", \"") + keys[i] + "\"";
  }
  if (keys.size() > kShown) text += ", and " + std::to_string(keys.size() - kShown) + " more";
  return text;
}

void check_limit(const char* what, std::uint64_t size, std::uint64_t limit) {
  if (size <= limit) return;
  throw std::invalid_argument("[tcp_store] " + std::string(what) + " of " + std::to_string(size) +
                              " bytes is over the limit of " + std::to_string(limit));
}

using Keys = std::span<const std::string>;
using Values = std::span<const std::string_view>;

// Checked here, because the server would close the connection, and only the next call would notice.
void check_request(Keys keys, Values values) {
  constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);
  if (keys.size() > wire::kMaxKeys) {
    throw std::invalid_argument("[tcp_store] " + std::to_string(keys.size()) +
                                " keys at once are over the limit of " +
                                std::to_string(wire::kMaxKeys));
  }
  std::uint64_t request_bytes = sizeof(wire::Opcode) + sizeof(std::int64_t);  // at most
  for (const std::string& key : keys) {
    check_limit("a key", key.size(), wire::kMaxKeyBytes - 1);  // a slash is put before it
    request_bytes += kLengthBytes + 1 + key.size();
  }
  for (const std::string_view value : values) {
    check_limit("a value", value.size(), wire::kMaxValueBytes);
    request_bytes += kLengthBytes + value.size();
  }
  check_limit("a request", request_bytes, wire::kMaxRequestBytes);
}

constexpr const char* kNoGreeting =
    ": connections are taken, but not answered: the store's process may be stopped, or "
    "another program listens there";

}  // namespace

// One exchange with the server at a time, with errors that name it.
class TcpStore::Impl {
 public:
  Impl(const Endpoint& endpoint, const TcpStoreOptions& options)
      : endpoint_(endpoint),
        options_(options),
        connection_(explained(
            {"connect", {}, options.timeout},
            [&] {
              return LastingConnection(
                  endpoint, {.spin = options.spin, .check_after_idle = options.check_after_idle},
                  Deadline::after(options.timeout));
            },
            kNoGreeting)) {}

  template <class F>
  auto call(const char* operation, Keys keys, Values values, Timeout timeout, Repeat repeat,
            F&& exchange) {
    check_request(keys, values);
    const Call call{operation, keys, timeout};
    const Deadline deadline = Deadline::after(timeout);
    const std::unique_lock lock(mutex_, deadline.time_point());
    if (!lock.owns_lock()) throw timed_out(call, " while another operation held the connection");
    return explained(call, [&] {
      return connection_.run(repeat, deadline, [&](StoreConnection& connection) {
        return exchange(connection, deadline);
      });
    });
  }

  template <class F>
  auto call(const char* operation, Keys keys, Timeout timeout, Repeat repeat, F&& exchange) {
    return call(operation, keys, {}, timeout, repeat, std::forward<F>(exchange));
  }

  // Has the server change what the key holds.
  void tell(const char* operation, wire::Opcode opcode, std::string_view key,
            std::string_view value, Repeat repeat) {
    const std::string keys[] = {std::string(key)};
    const std::string_view values[] = {value};
    call(operation, keys, values, options_.timeout, repeat,
         [&](StoreConnection& store, Deadline deadline) {
           store.request(opcode).user_key(key).bytes(value);
           store.send_and_confirm(deadline);
         });
  }

  // Asks for a number that belongs to the key.
  std::int64_t ask(const char* operation, wire::Opcode opcode, std::string_view key,
                   Repeat repeat) {
    const std::string keys[] = {std::string(key)};
    return call(operation, keys, options_.timeout, repeat,
                [&](StoreConnection& store, Deadline deadline) {
                  store.request(opcode).user_key(key);
                  store.send(deadline);
                  return store.receive<std::int64_t>(deadline);
                });
  }

  [[nodiscard]] const Endpoint& server() const { return connection_.server(); }
  [[nodiscard]] const TcpStoreOptions& options() const { return options_; }
  [[nodiscard]] const std::string& local_address() const { return connection_.local_address(); }

 private:
  // An operation, for error messages.
  struct Call {
    const char* operation;
    Keys keys;
    Timeout timeout;
  };

  // Adds the operation to every error.
  template <class F>
  std::invoke_result_t<F> explained(const Call& call, F&& exchange, const char* if_late = "") {
    try {
      return exchange();
    } catch (const StoreConnection::WaitCancelled&) {
      throw timed_out(call);
    } catch (const TimeoutError&) {
      throw timed_out(call, if_late);
    } catch (const NoStoreError& error) {
      throw NoStoreError(sentence(call, error.what()));
    } catch (const Error& error) {
      throw NetworkError(sentence(call, error.what()));
    }
  }

  [[nodiscard]] std::string sentence(const Call& call, const std::string& what) const {
    const std::string where = to_string(endpoint_);
    const bool says_where = what.find(where) != std::string::npos;
    return origin(call) + ": " + what + (says_where ? "" : " (" + where + ")");
  }

  [[nodiscard]] TimeoutError timed_out(const Call& call, const char* why = "") const {
    return TimeoutError(origin(call) + ": timed out after " + std::to_string(call.timeout.count()) +
                        " ms" + why + " (" + to_string(endpoint_) + ")");
  }

  [[nodiscard]] std::string origin(const Call& call) const {
    const std::string text =
        "[tcp_store] " + std::string(call.operation) + "(" + quoted_list(call.keys) + ")";
    return options_.rank < 0 ? text : text + " on rank " + std::to_string(options_.rank);
  }

  Endpoint endpoint_;
  TcpStoreOptions options_;
  TimedMutex mutex_;
  LastingConnection connection_;
};

TcpStore::TcpStore(const Endpoint& endpoint, const TcpStoreOptions& options)
    : impl_(std::make_unique<Impl>(endpoint, options)) {}

TcpStore::TcpStore(const Endpoint& endpoint, Timeout timeout, int rank)
    : TcpStore(endpoint, TcpStoreOptions{.timeout = timeout, .rank = rank}) {}

TcpStore::~TcpStore() = default;

Timeout TcpStore::timeout() const { return impl_->options().timeout; }

std::string TcpStore::local_address() const { return impl_->local_address(); }

std::shared_ptr<Store> TcpStore::clone(Timeout timeout) const {
  TcpStoreOptions options = impl_->options();
  options.timeout = timeout;
  return std::make_shared<TcpStore>(impl_->server(), options);
}

void TcpStore::set(std::string_view key, std::string_view value) {
  impl_->tell("set", wire::Opcode::kSet, key, value, Repeat::kYes);
}

std::string TcpStore::get(std::string_view key, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  return impl_->call("get", keys, timeout, Repeat::kYes,
                     [&](StoreConnection& store, Deadline deadline) {
                       return std::move(store.wait_then_get(wire::Opcode::kGet, keys, deadline)[0]);
                     });
}

std::vector<std::string> TcpStore::multi_get(std::span<const std::string> keys, Timeout timeout) {
  return impl_->call("multi_get", keys, timeout, Repeat::kYes,
                     [&](StoreConnection& store, Deadline deadline) {
                       return store.wait_then_get(wire::Opcode::kMultiGet, keys, deadline);
                     });
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta) {
  const std::string keys[] = {std::string(key)};
  const Repeat repeat = delta == 0 ? Repeat::kYes : Repeat::kNo;
  return impl_->call(
      "add", keys, timeout(), repeat, [&](StoreConnection& store, Deadline deadline) {
        store.request(wire::Opcode::kAdd).user_key(key).integer(delta);
        store.send(deadline);
        try {
          return store.receive<std::int64_t>(deadline);
        } catch (const HangUpError& error) {  // the protocol has no other answer to it
          throw NetworkError(std::string(error.what()) +
                             ": it ended, or the value is not a number");
        }
      });
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) {
  const std::string keys[] = {std::string(key)};
  const std::string_view values[] = {expected, desired};
  const bool is_idempotent = expected.empty() || expected == desired;
  return impl_->call(
      "compare_set", keys, values, timeout(), is_idempotent ? Repeat::kYes : Repeat::kNo,
      [&](StoreConnection& store, Deadline deadline) {
        store.request(wire::Opcode::kCompareSet).user_key(key).bytes(expected).bytes(desired);
        store.send(deadline);
        return store.receive_bytes(deadline);
      });
}

void TcpStore::wait(std::span<const std::string> keys, Timeout timeout) {
  impl_->call("wait", keys, timeout, Repeat::kYes, [&](StoreConnection& store, Deadline deadline) {
    store.request(wire::Opcode::kWait, keys);
    store.wait_for_stop(deadline);
  });
}

bool TcpStore::check(std::span<const std::string> keys) {
  return impl_->call("check", keys, timeout(), Repeat::kYes,
                     [&](StoreConnection& store, Deadline deadline) {
                       store.request(wire::Opcode::kCheck, keys);
                       store.send(deadline);
                       return store.receive<std::uint8_t>(deadline) == wire::kReady;
                     });
}

bool TcpStore::delete_key(std::string_view key) {
  return impl_->ask("delete_key", wire::Opcode::kDeleteKey, key, Repeat::kNo) == 1;
}

void TcpStore::append(std::string_view key, std::string_view value) {
  impl_->tell("append", wire::Opcode::kAppend, key, value, Repeat::kNo);
}

void TcpStore::multi_set(std::span<const std::pair<std::string, std::string>> entries) {
  std::vector<std::string> keys;
  std::vector<std::string_view> values;
  for (const auto& [key, value] : entries) {
    keys.push_back(key);
    values.push_back(value);
  }
  impl_->call("multi_set", keys, values, timeout(), Repeat::kYes,
              [&](StoreConnection& store, Deadline deadline) {
                wire::Writer writer = store.request(wire::Opcode::kMultiSet);
                writer.integer(static_cast<std::uint64_t>(entries.size()));
                for (const auto& [key, value] : entries) writer.user_key(key).bytes(value);
                store.send_and_confirm(deadline);
              });
}

std::int64_t TcpStore::num_keys() {
  return impl_->call("num_keys", {}, timeout(), Repeat::kYes,
                     [&](StoreConnection& store, Deadline deadline) {
                       store.request(wire::Opcode::kGetNumKeys);
                       store.send(deadline);
                       return store.receive<std::int64_t>(deadline);
                     });
}

std::vector<std::string> TcpStore::list_keys() {
  return impl_->call("list_keys", {}, timeout(), Repeat::kYes,
                     [&](StoreConnection& store, Deadline deadline) {
                       store.request(wire::Opcode::kListKeys);
                       store.send(deadline);
                       std::vector<std::string> keys;
                       for (auto left = store.receive<std::int64_t>(deadline); left > 0; --left) {
                         const std::string key = store.receive_bytes(deadline);
                         if (key.starts_with('/'))
                           keys.push_back(key.substr(1));  // others are no user's
                       }
                       return keys;
                     });
}

void TcpStore::queue_push(std::string_view key, std::string_view value) {
  impl_->tell("queue_push", wire::Opcode::kQueuePush, key, value, Repeat::kNo);
}

std::optional<std::string> TcpStore::queue_pop(std::string_view key, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  const bool wait = timeout > Timeout(0);
  // Another client may take the element between the wait and the pop; then wait again.
  const auto pop = [&](StoreConnection& store, Deadline deadline) -> std::optional<std::string> {
    do {
      if (wait) {
        store.request(wire::Opcode::kWait, keys);
        store.wait_for_stop(deadline);
      }
      const Deadline reply = StoreConnection::for_reply(deadline);
      store.request(wire::Opcode::kQueuePop).user_key(key);
      store.send(reply);
      if (store.receive<std::int64_t>(reply) > 0) return store.receive_bytes(reply);
    } while (wait);
    return std::nullopt;
  };
  return impl_->call("queue_pop", keys, wait ? timeout : this->timeout(), Repeat::kNo, pop);
}

std::int64_t TcpStore::queue_length(std::string_view key) {
  return impl_->ask("queue_length", wire::Opcode::kQueueLen, key, Repeat::kYes);
}

void TcpStore::barrier(std::string_view key, int world_size, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  impl_->call(
      "barrier", keys, timeout, Repeat::kNo, [&](StoreConnection& store, Deadline deadline) {
        store.request(wire::Opcode::kBarrier).user_key(key).integer(std::int64_t{world_size});
        store.wait_for_stop(deadline);
      });
}

}  // namespace ddp
