// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/socket.h"
#include "ddp/base/time.h"
#include "ddp/store/spin.h"
#include "ddp/store/wire.h"

namespace ddp {

// A client's end of a connection to a store: requests go out in one piece, answers come in through
// a buffer. Errors are a NetworkError or TimeoutError that names neither peer nor operation; but
// for WaitCancelled, the connection may be out of step after one and has to be closed. Not
// thread-safe.
class StoreConnection {
 public:
  // A wait ran out of time and was taken back: the connection is still in step.
  struct WaitCancelled {};

  explicit StoreConnection(std::chrono::microseconds spin) : spin_(spin) {}

  // Connects, and makes sure that a store answers.
  void open(const Endpoint& endpoint, Deadline deadline);
  void close() { socket_.close(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] std::string local_address() const { return socket_.local_endpoint().host; }

  // Begins the request that send() or wait_for_stop() sends, to be completed by the writer.
  wire::Writer request(wire::Opcode opcode);
  wire::Writer request(wire::Opcode opcode, std::span<const std::string> keys);
  void send(Deadline deadline);

  template <class T>
  [[nodiscard]] T receive(Deadline deadline) {
    T value{};
    receive_into(std::as_writable_bytes(std::span(&value, 1)), deadline);
    return value;
  }
  [[nodiscard]] std::string receive_bytes(Deadline deadline);

  // Sends a WAIT or BARRIER and waits for its end. On a timeout the wait is taken back, which
  // throws WaitCancelled; if the answer crosses with that, it counts.
  void wait_for_stop(Deadline deadline);
  // Waits for the keys, then gets their values: kGet of one, or kMultiGet.
  [[nodiscard]] std::vector<std::string> wait_then_get(wire::Opcode opcode,
                                                       std::span<const std::string> keys,
                                                       Deadline deadline);

  // Once a wait is over, the server answers at once: a wait that ended in its last moment must not
  // cost the connection.
  [[nodiscard]] static Deadline for_reply(Deadline deadline);

 private:
  void greet(Deadline deadline);
  [[nodiscard]] bool fill(Deadline deadline);
  [[nodiscard]] bool took(std::optional<std::size_t> received);
  void receive_into(std::span<std::byte> target, Deadline deadline);

  Socket socket_;
  Spin spin_;
  std::string out_;
  std::array<std::byte, 4096> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
};

}  // namespace ddp
