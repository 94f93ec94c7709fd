// SPDX-License-Identifier: MIT
#include "ddp/store/store_connection.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "ddp/base/error.h"
#include "ddp/store/store.h"

namespace ddp {
namespace {

std::uint32_t ping_nonce() { return static_cast<std::uint32_t>(::getpid()); }

constexpr const char* kNoStore =
    " right after connecting: another program may listen there, or a store that is ending, or the "
    "store of another user of this host, or a store of PyTorch 1.x, which speaks another protocol "
    "(its torchrun works with --standalone)";

}  // namespace

void StoreConnection::open(const Endpoint& endpoint, Deadline to_connect, Deadline to_answer) {
  socket_ = Socket::connect(endpoint, to_connect);
  in_begin_ = in_end_ = 0;
  try {
    greet(to_answer);
  } catch (const HangUpError& error) {
    throw NoStoreError(error.what() + std::string(kNoStore) +
                       ", or a proxy whose server is not there yet");
  } catch (const NetworkError& error) {
    throw NetworkError(error.what() + std::string(kNoStore));
  }
}

void StoreConnection::greet(Deadline deadline) {
  // PyTorch's libuv server wants these five bytes in one piece.
  request(wire::Opcode::kValidate).integer(wire::kMagic);
  send(deadline);
  out_.clear();
  add_ping();
  wire::Writer(out_)
      .opcode(wire::Opcode::kCompareSet)
      .bytes(wire::kServerIdKey)
      .bytes(wire::kNoServerId)
      .bytes(wire::kNoServerId);
  send(deadline);
  receive_pong(deadline);
  server_id_ = receive_bytes(deadline);
}

void StoreConnection::add_ping() {
  wire::Writer(out_).opcode(wire::Opcode::kPing).integer(ping_nonce());
}

void StoreConnection::receive_pong(Deadline deadline) {
  if (receive<std::uint32_t>(deadline) == ping_nonce()) return;
  throw NetworkError("the server answered PING wrongly");
}

wire::Writer StoreConnection::request(wire::Opcode opcode) {
  out_.clear();
  wire::Writer writer(out_);
  writer.opcode(opcode);
  return writer;
}

wire::Writer StoreConnection::request(wire::Opcode opcode, std::span<const std::string> keys) {
  wire::Writer writer = request(opcode);
  writer.integer(static_cast<std::uint64_t>(keys.size()));
  for (const std::string& key : keys) writer.user_key(key);
  return writer;
}

void StoreConnection::send(Deadline deadline) {
  socket_.send_all(std::as_bytes(std::span(out_)), deadline);
}

void StoreConnection::send_and_confirm(Deadline deadline) {
  add_ping();
  send(deadline);
  receive_pong(deadline);
}

void StoreConnection::ping(Deadline deadline) {
  out_.clear();
  send_and_confirm(deadline);
}

std::string StoreConnection::receive_bytes(Deadline deadline) {
  const auto length = receive<std::uint64_t>(deadline);
  if (length > wire::kMaxRequestBytes) {
    throw NetworkError("the server announced a reply of " + std::to_string(length) + " bytes");
  }
  std::string value(length, '\0');
  receive_into(std::as_writable_bytes(std::span(value)), deadline);
  return value;
}

void StoreConnection::wait_for_stop(Deadline deadline) {
  send(deadline);
  if (!fill(deadline)) {
    const Deadline grace = Deadline::after(kLateAnswerGrace);
    request(wire::Opcode::kCancelWait);
    send(grace);
    const bool cancelled = receive<std::uint8_t>(grace) == wire::kWaitCanceled;
    if (cancelled) throw WaitCancelled();
    (void)receive<std::uint8_t>(grace);  // the wait's answer came first; skip the cancellation's
    return;
  }
  if (receive<std::uint8_t>(deadline) != wire::kStopWaiting) {
    throw NetworkError("the server answered a wait wrongly");
  }
}

std::vector<std::string> StoreConnection::wait_then_get(wire::Opcode opcode,
                                                        std::span<const std::string> keys,
                                                        Deadline deadline) {
  request(wire::Opcode::kWait, keys);
  wait_for_stop(deadline);
  deadline = for_reply(deadline);
  if (opcode == wire::Opcode::kGet) {
    request(opcode).user_key(keys[0]);
  } else {
    request(opcode, keys);
  }
  send(deadline);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(receive_bytes(deadline));
  return values;
}

Deadline StoreConnection::for_reply(Deadline deadline) {
  return Deadline::after(std::max(deadline.remaining(), kLateAnswerGrace));
}

// Waits until in_ holds bytes; returns false if none came in time.
bool StoreConnection::fill(Deadline deadline) {
  if (in_begin_ < in_end_) return true;
  return spin_.until([this] { return took(socket_.receive_some(in_)); }) ||
         took(socket_.receive_until(in_, deadline));
}

bool StoreConnection::took(std::optional<std::size_t> received) {
  in_begin_ = 0;
  in_end_ = received.value_or(0);
  return received.has_value();
}

void StoreConnection::receive_into(std::span<std::byte> target, Deadline deadline) {
  while (!target.empty()) {
    if (!fill(deadline)) throw TimeoutError("");
    const std::size_t count = std::min(target.size(), in_end_ - in_begin_);
    std::copy_n(in_.begin() + static_cast<std::ptrdiff_t>(in_begin_), count, target.begin());
    in_begin_ += count;
    target = target.subspan(count);
  }
}

}  // namespace ddp
