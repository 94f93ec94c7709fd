// SPDX-License-Identifier: MIT
//
// The wire protocol of PyTorch's c10d TCPStore, opcodes 0x00 to 0x12. Requests follow one another
// in one TCP stream, without framing. Replies come in the order of the requests, with one
// exception: the reply to a WAIT or BARRIER that has to wait comes when its wait is over. Integers
// are little-endian.
//
//   request  := VALIDATE 0x00 u32 0x3C85F7CE        the first request, sent once; no reply
//             | SET         0x01 key value          no reply
//             | COMPARE_SET 0x02 key bytes bytes    expected, desired; reply: bytes
//             | GET         0x03 key                reply: bytes
//             | ADD         0x04 key i64            reply: i64
//             | CHECK       0x05 keys               reply: u8 READY=0 | NOT_READY=1
//             | WAIT        0x06 keys               reply: u8 STOP_WAITING=0
//             | GETNUMKEYS  0x07                    reply: i64
//             | DELETE_KEY  0x08 key                reply: i64 number deleted
//             | APPEND      0x09 key value          no reply
//             | MULTI_GET   0x0a keys               reply: bytes for each key
//             | MULTI_SET   0x0b u64 n, n (key value)   no reply
//             | CANCEL_WAIT 0x0c                    reply: u8 WAIT_CANCELED=1
//             | PING        0x0d u32 nonce          reply: u32 nonce
//             | QUEUE_PUSH  0x0e key value          no reply
//             | QUEUE_POP   0x0f key                reply: i64 length before; bytes if it is > 0
//             | QUEUE_LEN   0x10 key                reply: i64
//             | LIST_KEYS   0x11                    reply: i64 n, n bytes
//             | BARRIER     0x12 key i64 world_size reply: u8 STOP_WAITING=0
//   keys     := u64 n, n key
//   key      := bytes          value := bytes          bytes := u64 length, raw bytes
//
// Source: torch/csrc/distributed/c10d/TCPStore*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::wire {

enum class Opcode : std::uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kGetNumKeys,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};

inline constexpr std::uint32_t kMagic = 0x3C85F7CE;
inline constexpr std::uint8_t kReady = 0;
inline constexpr std::uint8_t kNotReady = 1;
inline constexpr std::uint8_t kStopWaiting = 0;
inline constexpr std::uint8_t kWaitCanceled = 1;

// A COMPARE_SET of this key from kNoServerId to kNoServerId asks TcpServer for its id, a random
// number, and changes nothing in PyTorch's servers, which answer kNoServerId. Keys of users begin
// with "/".
inline constexpr std::string_view kServerIdKey = "ddp/server_id";
inline constexpr std::string_view kNoServerId = "?";

// Larger requests are refused before anything is allocated for them.
inline constexpr std::uint64_t kMaxKeyBytes = 64 << 10;
inline constexpr std::uint64_t kMaxValueBytes = 64 << 20;
inline constexpr std::uint64_t kMaxKeys = 131072;
inline constexpr std::uint64_t kMaxRequestBytes = 128 << 20;
// A client is dropped if more bytes of replies than this wait to be sent to it.
inline constexpr std::uint64_t kMaxReplyBytes = 256 << 20;

// One request. The views point into the bytes it was parsed from.
struct Request {
  Opcode opcode = Opcode::kPing;
  std::int64_t number = 0;               // the magic number, delta, nonce or world_size
  std::vector<std::string_view> keys;    // has one element if the request is about one key
  std::vector<std::string_view> values;  // COMPARE_SET has two: expected, then desired
};

enum class ParseStatus { kComplete, kIncomplete, kMalformed };

struct ParseResult {
  ParseStatus status = ParseStatus::kIncomplete;
  std::size_t size_bytes = 0;  // kComplete: bytes consumed; kIncomplete: bytes needed to go on
  const char* reason = "";     // kMalformed: what is wrong
};

// Reads one request from the front of `input` into `request`, whose storage is reused.
ParseResult parse_request(std::span<const std::byte> input, Request& request);

// Builds requests and replies.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  Writer& opcode(Opcode value) { return integer(value); }
  Writer& bytes(std::string_view value) {
    integer(static_cast<std::uint64_t>(value.size()));
    out_.append(value);
    return *this;
  }
  // PyTorch's clients put "/" before every key of a user.
  Writer& user_key(std::string_view key) {
    integer(static_cast<std::uint64_t>(key.size() + 1));
    out_.push_back('/');
    out_.append(key);
    return *this;
  }
  template <class T>
  Writer& integer(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }

 private:
  std::string& out_;
};

}  // namespace ddp::wire
