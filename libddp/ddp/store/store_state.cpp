// SPDX-License-Identifier: MIT
#include "ddp/store/store_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/store/counter.h"

namespace ddp {
namespace {

std::string draw_server_id() {
  std::random_device random;
  return std::to_string((std::uint64_t{random()} << 32) | random());
}

}  // namespace

StoreState::StoreState(ReplySink reply) : reply_(std::move(reply)), server_id_(draw_server_id()) {}

void StoreState::handle(ClientId client, const wire::Request& request) {
  using wire::Opcode;
  const auto key = [&] { return request.keys[0]; };
  switch (request.opcode) {
    case Opcode::kValidate:
      throw NetworkError("it sent VALIDATE twice");
    case Opcode::kSet:
      return set(key(), request.values[0]);
    case Opcode::kCompareSet:
      return compare_set(client, request);
    case Opcode::kGet:
      return reply_bytes(client, value_or_empty(key()));
    case Opcode::kAdd:
      return add(client, key(), request.number);
    case Opcode::kCheck: {
      const bool all = std::all_of(request.keys.begin(), request.keys.end(),
                                   [this](std::string_view each) { return exists(each); });
      return reply_integer(client, all ? wire::kReady : wire::kNotReady);
    }
    case Opcode::kWait:
      return wait(client, request);
    case Opcode::kGetNumKeys:
      return reply_integer(client, static_cast<std::int64_t>(values_.size()));
    case Opcode::kDeleteKey:
      return reply_integer(client, static_cast<std::int64_t>(values_.erase(std::string(key()))));
    case Opcode::kAppend:
      return append(key(), request.values[0]);
    case Opcode::kMultiGet:
      return multi_get(client, request.keys);
    case Opcode::kMultiSet:
      for (std::size_t i = 0; i < request.keys.size(); ++i) set(request.keys[i], request.values[i]);
      return;
    case Opcode::kCancelWait:
      forget(client);
      return reply_integer(client, wire::kWaitCanceled);
    case Opcode::kPing:
      return reply_integer(client, static_cast<std::uint32_t>(request.number));
    case Opcode::kQueuePush:
      return queue_push(key(), request.values[0]);
    case Opcode::kQueuePop:
      return queue_pop(client, key());
    case Opcode::kQueueLen:
      return reply_integer(client, queue_length(key()));
    case Opcode::kListKeys:
      return list_keys(client);
    case Opcode::kBarrier:
      return barrier(client, key(), request.number);
  }
}

void StoreState::forget(ClientId client) {
  const auto is_its = [client](const auto& entry) { return entry.second.client == client; };
  if (std::erase_if(waits_, is_its) > 0) has_ended_waits_ = true;
  if (std::exchange(has_ended_waits_, false)) leave_out_ended_waits();
  for (auto& [key, clients] : barriers_) std::erase(clients, client);
  std::erase_if(barriers_, [](const auto& entry) { return entry.second.empty(); });
  const auto woken = woken_.find(client);
  if (woken == woken_.end()) return;
  std::vector<std::string>& keys = woken->second;
  for (; !keys.empty(); keys.pop_back()) {
    if (queues_.contains(keys.back())) wake_one(keys.back());
  }
  woken_.erase(client);
}

// Takes as long as there are keys that others wait for.
void StoreState::leave_out_ended_waits() {
  for (auto& [key, ids] : waits_by_key_) {
    std::erase_if(ids, [this](WaitId id) { return !waits_.contains(id); });
  }
  std::erase_if(waits_by_key_, [](const auto& entry) { return entry.second.empty(); });
}

void StoreState::set(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    values_.emplace(key, value);
  } else {
    found->second.assign(value);
  }
  wake_all(key);
}

void StoreState::add(ClientId client, std::string_view key, std::int64_t delta) {
  reply_integer(client, add_to_counter(key, delta));
  wake_all(key);
}

std::int64_t StoreState::add_to_counter(std::string_view key, std::int64_t delta) {
  auto found = values_.find(key);
  if (found == values_.end()) found = values_.emplace(key, "0").first;
  return add_to_text(found->second, delta);
}

void StoreState::compare_set(ClientId client, const wire::Request& request) {
  const std::string_view key = request.keys[0];
  if (key == wire::kServerIdKey) return reply_bytes(client, server_id_);
  const std::string_view expected = request.values[0];
  const std::string_view desired = request.values[1];
  const auto found = values_.find(key);
  const bool missing = found == values_.end();
  if (missing && !expected.empty()) return reply_bytes(client, expected);
  if (!missing && found->second != expected) return reply_bytes(client, found->second);
  reply_bytes(client, desired);
  set(key, desired);
}

void StoreState::wait(ClientId client, const wire::Request& request) {
  const WaitId id = next_wait_++;
  std::size_t missing = 0;
  for (const std::string_view key : request.keys) {
    if (exists(key)) continue;
    std::vector<WaitId>& ids = waits_by_key_[std::string(key)];
    if (!ids.empty() && ids.back() == id) continue;  // the request names the key twice
    ids.push_back(id);
    ++missing;
  }
  if (missing == 0) return reply_integer(client, wire::kStopWaiting);
  waits_.emplace(id, Wait{client, missing});
}

// A small request can name a large value many times, so the total size is checked first.
void StoreState::multi_get(ClientId client, std::span<const std::string_view> keys) {
  std::uint64_t total_bytes = 0;
  for (const std::string_view key : keys) total_bytes += value_or_empty(key).size();
  if (total_bytes > wire::kMaxReplyBytes) {
    throw NetworkError("it asked for values that are too long together (MULTI_GET)");
  }
  for (const std::string_view key : keys) reply_bytes(client, value_or_empty(key));
}

void StoreState::append(std::string_view key, std::string_view value) {
  std::string& target = values_[std::string(key)];
  if (target.size() + value.size() > wire::kMaxValueBytes) {
    throw NetworkError("it made a value too long (APPEND)");
  }
  target.append(value);
  wake_all(key);
}

void StoreState::queue_push(std::string_view key, std::string_view value) {
  queues_[std::string(key)].emplace_back(value);
  wake_one(key);
}

void StoreState::queue_pop(ClientId client, std::string_view key) {
  reply_integer(client, queue_length(key));
  if (const auto woken = woken_.find(client); woken != woken_.end()) {
    std::erase(woken->second, key);
    if (woken->second.empty()) woken_.erase(woken);
  }
  const auto found = queues_.find(key);
  if (found == queues_.end()) return;
  reply_bytes(client, found->second.front());
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
}

void StoreState::list_keys(ClientId client) {
  reply_integer(client, static_cast<std::int64_t>(values_.size()));
  for (const auto& [key, value] : values_) reply_bytes(client, key);
}

void StoreState::barrier(ClientId client, std::string_view key, std::int64_t world_size) {
  const std::int64_t arrived = add_to_counter(key, 1);
  wake_all(key);
  if (arrived < world_size) {
    barriers_[std::string(key)].push_back(client);
    return;
  }
  reply_integer(client, wire::kStopWaiting);
  const auto waiting = barriers_.find(key);
  if (waiting == barriers_.end()) return;
  for (const ClientId other : waiting->second) reply_integer(other, wire::kStopWaiting);
  barriers_.erase(waiting);
}

// A key exists if it has a value or a queue; a queue exists only while it has elements.
bool StoreState::exists(std::string_view key) const {
  return values_.find(key) != values_.end() || queues_.find(key) != queues_.end();
}

std::string_view StoreState::value_or_empty(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string_view() : std::string_view(found->second);
}

std::int64_t StoreState::queue_length(std::string_view key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

void StoreState::wake_all(std::string_view key) {
  const auto found = waits_by_key_.find(key);
  if (found == waits_by_key_.end()) return;
  const std::vector<WaitId> ids = std::move(found->second);
  waits_by_key_.erase(found);
  for (const WaitId id : ids) count_down(id);
}

// Ends the first wait whose other keys exist; `key` is a queue. The others stay: another client may
// take the element before they have the rest.
void StoreState::wake_one(std::string_view key) {
  const auto found = waits_by_key_.find(key);
  if (found == waits_by_key_.end()) return;
  std::vector<WaitId>& ids = found->second;
  std::erase_if(ids, [this](WaitId id) { return !waits_.contains(id); });
  const auto last = std::ranges::find_if(
      ids, [this](WaitId id) { return waits_.at(id).missing <= queues_awaited_by(id); });
  if (last != ids.end()) {
    end_wait(*last);
    ids.erase(last);
  }
  if (ids.empty()) waits_by_key_.erase(found);
}

void StoreState::count_down(WaitId id) {
  const auto found = waits_.find(id);
  if (found == waits_.end()) return;
  Wait& wait = found->second;
  --wait.missing;
  if (wait.missing <= queues_awaited_by(id)) end_wait(id);
}

void StoreState::end_wait(WaitId id) {
  const ClientId client = waits_.at(id).client;
  for (const auto& [key, queue] : queues_) {
    if (awaits(id, key)) woken_[client].push_back(key);
  }
  reply_integer(client, wire::kStopWaiting);
  if (waits_.at(id).missing > 0) has_ended_waits_ = true;
  waits_.erase(id);
}

// Whether the key, which may have come since, did not exist when the wait began.
bool StoreState::awaits(WaitId id, std::string_view key) const {
  const auto found = waits_by_key_.find(key);
  return found != waits_by_key_.end() && std::ranges::count(found->second, id) > 0;
}

// How many keys of the wait exist as queues, although they did not when it began.
std::size_t StoreState::queues_awaited_by(WaitId id) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(queues_, [&](const auto& entry) { return awaits(id, entry.first); }));
}

template <class T>
void StoreState::reply_integer(ClientId client, T value) {
  reply_(client, {reinterpret_cast<const char*>(&value), sizeof(value)});
}

void StoreState::reply_bytes(ClientId client, std::string_view value) {
  scratch_.clear();
  wire::Writer(scratch_).bytes(value);
  reply_(client, scratch_);
}

}  // namespace ddp
