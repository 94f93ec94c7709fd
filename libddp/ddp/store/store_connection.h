// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/net/socket.h"
#include "ddp/base/threads/spin.h"
#include "ddp/base/time.h"
#include "ddp/store/wire.h"

namespace ddp {

// Whoever has taken a connection has closed it before it answered as a store does.
class NoStoreError : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

// A client's end of a connection to a store. It sends each request in one piece and reads answers
// through a buffer. Its errors are NetworkError and TimeoutError, without the names of peer and
// operation, which the caller adds. After one of them the next bytes may belong to an earlier
// request, so the caller has to close the connection. Not thread-safe.
class StoreConnection {
 public:
  // Thrown when a wait ran out of time and the server has cancelled it. The connection remains
  // usable.
  struct WaitCancelled {};

  explicit StoreConnection(std::chrono::microseconds spin) : spin_(spin) {}

  // Connects until the first deadline, and waits for a store's answer until the second one.
  void open(const Endpoint& endpoint, Deadline to_connect, Deadline to_answer);
  // What was not received yet may have failed already for the caller, so it is not delivered later;
  // a server that is stopped may have received it.
  void close() { socket_.abandon(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  // Of the server that was connected to last: see wire::kServerIdKey.
  [[nodiscard]] const std::string& server_id() const { return server_id_; }
  // Between two requests: whether the server has closed the connection, or it has broken.
  [[nodiscard]] bool has_broken() const {
    return socket_.wait_readable(Deadline::after(Timeout(0)));
  }
  [[nodiscard]] std::string local_address() const { return socket_.local_endpoint().host; }
  [[nodiscard]] Endpoint server() const { return socket_.peer_endpoint(); }

  // Begins the request that send() or wait_for_stop() sends; the caller adds the rest through the
  // writer.
  wire::Writer request(wire::Opcode opcode);
  wire::Writer request(wire::Opcode opcode, std::span<const std::string> keys);
  void send(Deadline deadline);
  // For requests without an answer: returns when the server has taken this one.
  void send_and_confirm(Deadline deadline);
  // Between two requests: returns when the server has answered.
  void ping(Deadline deadline);

  template <class T>
  [[nodiscard]] T receive(Deadline deadline) {
    T value{};
    receive_into(std::as_writable_bytes(std::span(&value, 1)), deadline);
    return value;
  }
  [[nodiscard]] std::string receive_bytes(Deadline deadline);

  // Sends a WAIT or BARRIER and waits for its end. On a timeout it cancels the wait at the server
  // and throws WaitCancelled, unless the wait turns out to have ended before the cancellation came.
  void wait_for_stop(Deadline deadline);
  // Waits for the keys, then gets their values; opcode is kGet for one key, or kMultiGet.
  [[nodiscard]] std::vector<std::string> wait_then_get(wire::Opcode opcode,
                                                       std::span<const std::string> keys,
                                                       Deadline deadline);

  // The deadline for a reply that the server sends without waiting. It leaves some time even if
  // the caller's deadline has nearly passed: a wait that ended at the last moment must not cost the
  // connection.
  [[nodiscard]] static Deadline for_reply(Deadline deadline);

 private:
  void greet(Deadline deadline);
  void add_ping();
  void receive_pong(Deadline deadline);
  [[nodiscard]] bool fill(Deadline deadline);
  [[nodiscard]] bool took(std::optional<std::size_t> received);
  void receive_into(std::span<std::byte> target, Deadline deadline);

  Socket socket_;
  Spin spin_;
  std::string out_;
  std::string server_id_;
  std::array<std::byte, 4096> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
};

}  // namespace ddp
