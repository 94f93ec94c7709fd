// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>

#include "ddp/base/endpoint.h"
#include "ddp/base/net/socket.h"

namespace ddp::test {

// Passes bytes on between clients and a server on loopback, and breaks their connections as a
// firewall does that has forgotten them: both ends see a reset.
class Relay {
 public:
  explicit Relay(const Endpoint& server);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Where clients connect: an address that is not that of their end, like another host's.
  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  // How many bytes of clients the server has got.
  [[nodiscard]] std::uint64_t bytes_to_server() const { return bytes_to_server_; }

  // Resets all connections there are, and returns when that has happened.
  void break_now();
  // Resets each connection there is when its client sends the next byte, which is lost.
  void break_at_next_byte();
  // Passes nothing on until pass_again(), as a network does that drops packets.
  void hold();
  void pass_again();
  // Resets all connections there are, and refuses others until accept_again().
  void refuse();
  void accept_again();
  // New connections are passed on to another server.
  void lead_to(const Endpoint& server);

 private:
  enum class Order { kNone, kBreakNow, kBreakAtNextByte, kHold, kPassAgain, kRefuse, kAcceptAgain };
  struct Pair {
    Socket client;
    Socket server;
    bool breaks = false;  // when the client sends
  };

  void give(Order order);
  void run();
  void carry_out(Order order);
  bool pass_on(Pair& pair);

  Socket listener_;  // of the thread; not open while it refuses
  Endpoint endpoint_;
  std::mutex mutex_;
  Endpoint server_;
  std::atomic<Order> order_ = Order::kNone;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> bytes_to_server_ = 0;
  std::list<Pair> pairs_;  // of the thread
  bool holds_ = false;     // likewise
  std::thread thread_;
};

}  // namespace ddp::test
