// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp {

// Keeps the last `capacity` values that were pushed. One thread at a time may push; any number of
// threads may read at any time. Neither waits for the other: pushing a value takes a few stores. A
// reader misses a value that is overwritten while it reads, but never sees a mixture of two.
template <class Value>
class SingleWriterRing {
 public:
  // With a capacity of 0 nothing is kept.
  explicit SingleWriterRing(std::size_t capacity) : slots_(capacity) {}

  [[nodiscard]] std::size_t capacity() const { return slots_.size(); }
  void push(const Value& value);
  // Oldest first.
  [[nodiscard]] std::vector<Value> values() const;
  // The value that was pushed as number n = 1, 2, ..., unless it is overwritten.
  [[nodiscard]] std::optional<Value> value(std::uint64_t n) const;

 private:
  static constexpr std::size_t kWords = sizeof(Value) / sizeof(std::uint64_t);
  using Words = std::array<std::uint64_t, kWords>;
  static_assert(sizeof(Words) == sizeof(Value) && std::has_unique_object_representations_v<Value>);

  // Of a slot that holds no value, or half of one.
  static constexpr std::uint64_t kNone = 0;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> stamp = kNone;  // kNone, or the number of the value: 1, 2, ...
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };

  // A slot's value and its number, if it is whole.
  [[nodiscard]] static std::optional<std::pair<std::uint64_t, Value>> read(const Slot& slot);

  std::vector<Slot> slots_;
  std::uint64_t pushed_ = 0;  // used by the writer only
};

// Each slot is a sequence lock made of atomics: a reader that sees a new word also sees that the
// stamp was cleared before it.
template <class Value>
void SingleWriterRing<Value>::push(const Value& value) {
  if (slots_.empty()) return;
  Slot& slot = slots_[pushed_ % slots_.size()];
  slot.stamp.store(kNone, std::memory_order_relaxed);
  const auto words = std::bit_cast<Words>(value);
  for (std::size_t i = 0; i < kWords; ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.stamp.store(++pushed_, std::memory_order_release);
}

template <class Value>
std::optional<std::pair<std::uint64_t, Value>> SingleWriterRing<Value>::read(const Slot& slot) {
  const std::uint64_t stamp = slot.stamp.load(std::memory_order_acquire);
  Words words;
  for (std::size_t i = 0; i < kWords; ++i) {
    words[i] = slot.words[i].load(std::memory_order_acquire);
  }
  const bool is_whole = stamp == slot.stamp.load(std::memory_order_relaxed);
  if (!is_whole || stamp == kNone) return std::nullopt;
  return std::pair(stamp, std::bit_cast<Value>(words));
}

template <class Value>
std::vector<Value> SingleWriterRing<Value>::values() const {
  std::vector<std::pair<std::uint64_t, Value>> numbered;
  for (const Slot& slot : slots_) {
    if (const auto found = read(slot)) numbered.push_back(*found);
  }
  std::sort(numbered.begin(), numbered.end(),
            [](const auto& left, const auto& right) { return left.first < right.first; });
  std::vector<Value> values;
  for (const auto& [number, value] : numbered) values.push_back(value);
  return values;
}

template <class Value>
std::optional<Value> SingleWriterRing<Value>::value(std::uint64_t n) const {
  if (n == 0 || slots_.empty()) return std::nullopt;
  const auto found = read(slots_[(n - 1) % slots_.size()]);
  return found && found->first == n ? std::optional(found->second) : std::nullopt;
}

}  // namespace ddp
