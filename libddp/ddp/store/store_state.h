// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddp/store/wire.h"

namespace ddp {

// The state of a store's server: its keys, its queues, and which client waits for which keys. It
// has neither sockets nor threads: handle() takes a request and passes replies to the sink, for the
// client that sent the request and for others whose waits it ended.
class StoreState {
 public:
  using ClientId = std::uint64_t;
  using ReplySink = std::function<void(ClientId, std::string_view)>;

  explicit StoreState(ReplySink reply);

  // Throws NetworkError if the request cannot be served; the client should then be dropped.
  void handle(ClientId client, const wire::Request& request);

  // Drops the waits of a client that is gone, or has cancelled them. An element that it was woken
  // for is for another one. If it throws, since memory is short, it can be called again.
  void forget(ClientId client);

 private:
  using WaitId = std::uint64_t;
  struct Wait {
    ClientId client;
    std::size_t missing;  // how many of its keys did not exist yet
  };

  void set(std::string_view key, std::string_view value);
  void add(ClientId client, std::string_view key, std::int64_t delta);
  void compare_set(ClientId client, const wire::Request& request);
  void wait(ClientId client, const wire::Request& request);
  void multi_get(ClientId client, std::span<const std::string_view> keys);
  void append(std::string_view key, std::string_view value);
  void queue_push(std::string_view key, std::string_view value);
  void queue_pop(ClientId client, std::string_view key);
  void list_keys(ClientId client);
  void barrier(ClientId client, std::string_view key, std::int64_t world_size);

  [[nodiscard]] bool exists(std::string_view key) const;
  [[nodiscard]] std::string_view value_or_empty(std::string_view key) const;
  [[nodiscard]] std::int64_t queue_length(std::string_view key) const;
  std::int64_t add_to_counter(std::string_view key, std::int64_t delta);
  void wake_all(std::string_view key);
  void wake_one(std::string_view key);
  void count_down(WaitId id);
  void end_wait(WaitId id);
  void leave_out_ended_waits();
  [[nodiscard]] bool awaits(WaitId id, std::string_view key) const;
  [[nodiscard]] std::size_t queues_awaited_by(WaitId id) const;
  template <class T>
  void reply_integer(ClientId client, T value);
  void reply_bytes(ClientId client, std::string_view value);

  ReplySink reply_;
  std::string server_id_;  // tells a client that connects again whether this is the same store
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;
  std::map<std::string, std::vector<WaitId>, std::less<>> waits_by_key_;
  std::map<std::string, std::vector<ClientId>, std::less<>> barriers_;
  std::unordered_map<WaitId, Wait> waits_;
  // By client: queues for whose element it was woken, and from which it has taken none since.
  std::unordered_map<ClientId, std::vector<std::string>> woken_;
  WaitId next_wait_ = 0;
  bool has_ended_waits_ = false;  // in waits_by_key_
  std::string scratch_;
};

}  // namespace ddp
