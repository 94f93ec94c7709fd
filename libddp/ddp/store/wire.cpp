// SPDX-License-Identifier: MIT
#include "ddp/store/wire.h"

#include <cstring>

namespace ddp::wire {
namespace {

// Reads forward through the input. After the first missing or wrong element all later reads fail,
// too, and result() says why.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> input) : input_(input) {}

  template <class T>
  bool integer(T& value) {
    if (!available(sizeof(T))) return false;
    std::memcpy(&value, input_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  bool bytes(std::uint64_t limit, const char* complaint, std::string_view& value) {
    std::uint64_t length = 0;
    if (!integer(length)) return false;
    if (length > limit) return fail(complaint);
    if (!available(length)) return false;
    value = {reinterpret_cast<const char*>(input_.data()) + position_, length};
    position_ += length;
    return true;
  }

  bool key(Request& request) {
    return bytes(kMaxKeyBytes, "it sent a key that is too long", request.keys.emplace_back());
  }

  bool value(Request& request) {
    return bytes(kMaxValueBytes, "it sent a value that is too long", request.values.emplace_back());
  }

  bool key_count(std::uint64_t& count) {
    if (!integer(count)) return false;
    return count <= kMaxKeys || fail("it sent too many keys");
  }

  // Says that at least this many bytes follow the element that is read next. With this the result
  // for an unfinished request asks for several parts at once, so that the request need not be
  // parsed again when each of them has come.
  void expect_after_next(std::uint64_t size_bytes) { expected_after_ = size_bytes; }

  bool fail(const char* reason) {
    status_ = ParseStatus::kMalformed;
    reason_ = reason;
    return false;
  }

  [[nodiscard]] ParseResult result(bool complete) const {
    if (complete) return {ParseStatus::kComplete, position_, ""};
    if (status_ == ParseStatus::kMalformed) return {status_, 0, reason_};
    return {ParseStatus::kIncomplete, needed_, ""};
  }

 private:
  bool available(std::uint64_t size_bytes) {
    needed_ = position_ + size_bytes + expected_after_;
    if (needed_ > kMaxRequestBytes) return fail("it sent a request that is too long");
    return needed_ <= input_.size();
  }

  std::span<const std::byte> input_;
  std::size_t position_ = 0;
  std::size_t needed_ = 0;
  std::size_t expected_after_ = 0;
  ParseStatus status_ = ParseStatus::kIncomplete;
  const char* reason_ = "";
};

template <class T>
bool read_number(Cursor& cursor, Request& request) {
  T number{};
  if (!cursor.integer(number)) return false;
  request.number = static_cast<std::int64_t>(number);
  return true;
}

constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);

bool read_keys(Cursor& cursor, Request& request) {
  std::uint64_t left = 0;
  if (!cursor.key_count(left)) return false;
  for (; left > 0; --left) {
    cursor.expect_after_next((left - 1) * kLengthBytes);
    if (!cursor.key(request)) return false;
  }
  return true;
}

bool read_entries(Cursor& cursor, Request& request) {
  std::uint64_t left = 0;
  if (!cursor.key_count(left)) return false;
  for (; left > 0; --left) {
    cursor.expect_after_next((2 * left - 1) * kLengthBytes);
    if (!cursor.key(request)) return false;
    cursor.expect_after_next((2 * left - 2) * kLengthBytes);
    if (!cursor.value(request)) return false;
  }
  return true;
}

bool read_operands(Cursor& cursor, Request& request) {
  switch (request.opcode) {
    case Opcode::kValidate:
    case Opcode::kPing:
      return read_number<std::uint32_t>(cursor, request);
    case Opcode::kSet:
    case Opcode::kAppend:
    case Opcode::kQueuePush:
      return cursor.key(request) && cursor.value(request);
    case Opcode::kCompareSet:
      return cursor.key(request) && cursor.value(request) && cursor.value(request);
    case Opcode::kGet:
    case Opcode::kDeleteKey:
    case Opcode::kQueuePop:
    case Opcode::kQueueLen:
      return cursor.key(request);
    case Opcode::kAdd:
    case Opcode::kBarrier:
      return cursor.key(request) && read_number<std::int64_t>(cursor, request);
    case Opcode::kCheck:
    case Opcode::kWait:
    case Opcode::kMultiGet:
      return read_keys(cursor, request);
    case Opcode::kMultiSet:
      return read_entries(cursor, request);
    case Opcode::kGetNumKeys:
    case Opcode::kCancelWait:
    case Opcode::kListKeys:
      return true;
  }
  return cursor.fail("it sent an unknown opcode");
}

}  // namespace

ParseResult parse_request(std::span<const std::byte> input, Request& request) {
  request.number = 0;
  request.keys.clear();
  request.values.clear();
  Cursor cursor(input);
  const bool complete = cursor.integer(request.opcode) && read_operands(cursor, request);
  return cursor.result(complete);
}

}  // namespace ddp::wire
