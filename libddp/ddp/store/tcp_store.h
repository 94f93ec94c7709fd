// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"

namespace ddp {

struct TcpStoreOptions {
  Timeout timeout = kDefaultStoreTimeout;              // for connecting; default of every operation
  int rank = -1;                                       // only for error messages; -1: unknown
  std::chrono::microseconds spin = kDefaultStoreSpin;  // time to poll for a reply; 0: none
  // After this time without a call, one that must not be sent twice begins with a PING, because a
  // firewall may have forgotten the connection.
  Timeout check_after_idle{30'000};
  // Is kept until the store and all its clones are gone: for a server in the same process.
  std::shared_ptr<const void> keeps = nullptr;
};

// A client of TcpServer or of PyTorch's TCPStore (any 2.x: c10d opcodes 0x00 to 0x0d; the queue,
// list and barrier calls need a server that knows 0x0e to 0x12, as TcpServer does). Keys get
// PyTorch's leading "/" on the wire. Thread-safe: one operation runs at a time, others queue. What
// a server would refuse is std::invalid_argument: a value of more than 64 MiB, a key of more than
// 64 KiB, more than 131072 keys at once, a request of more than 128 MiB. A call has been carried
// out when it returns; PING confirms those that have no answer.
//
// A connection that was closed because the server was late is made anew by the next call. One that
// has broken is, too, for half a second, unless the server is PyTorch's (another one in its place
// could not be told from it) or, on this host, refuses; then the store is lost, and every call
// throws a NetworkError at once. Requests whose connection breaks before the answer comes are
// repeated, except append, push, pop, barrier, delete_key, add of a number other than 0, and
// compare_set of a value to another one. It is not known whether a request was carried out that
// fails, and a set that is repeated may overwrite what another client has set in between.
class TcpStore final : public Store {
 public:
  // Connects, retrying while the server starts.
  explicit TcpStore(const Endpoint& endpoint, const TcpStoreOptions& options = {});
  TcpStore(const Endpoint& endpoint, Timeout timeout, int rank = -1);
  ~TcpStore() override;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, Timeout timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override;
  void wait(std::span<const std::string> keys, Timeout timeout) override;
  bool check(std::span<const std::string> keys) override;
  bool delete_key(std::string_view key) override;
  std::shared_ptr<Store> clone(Timeout timeout) const override;
  Timeout timeout() const override;

  using Store::clone;
  using Store::get;
  using Store::wait;

  // Operations of the protocol beyond those of Store.
  void append(std::string_view key, std::string_view value);
  // A server closes the connection if the values have more than 256 MiB together.
  [[nodiscard]] std::vector<std::string> multi_get(std::span<const std::string> keys,
                                                   Timeout timeout);
  void multi_set(std::span<const std::pair<std::string, std::string>> entries);
  [[nodiscard]] std::int64_t num_keys();
  [[nodiscard]] std::vector<std::string> list_keys();
  // ddp-launch deletes keys before it starts workers again, but not queues: a program that uses
  // them puts TORCHELASTIC_RESTART_COUNT into their names.
  void queue_push(std::string_view key, std::string_view value);
  // Waits up to `timeout` for an element; then it throws TimeoutError, as get() does. Only with a
  // timeout of 0 it does not wait, and returns nothing if the queue is empty.
  [[nodiscard]] std::optional<std::string> queue_pop(std::string_view key, Timeout timeout);
  [[nodiscard]] std::int64_t queue_length(std::string_view key);
  // Returns once world_size callers have called it with this key. A key can be used once.
  void barrier(std::string_view key, int world_size, Timeout timeout);

  // This host's address on the connection to the store: an address on which other ranks of the job
  // can probably reach this host. Never waits.
  [[nodiscard]] std::string local_address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
