// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
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

  // Where clients connect.
  [[nodiscard]] Endpoint endpoint() const { return listener_.local_endpoint(); }

  // Resets all connections there are, and returns when that has happened.
  void break_now();
  // Resets each connection there is when its client sends the next byte, which is lost.
  void break_at_next_byte();
  // New connections are passed on to another server.
  void lead_to(const Endpoint& server);

 private:
  enum class Break { kNot, kNow, kAtNextByte };
  struct Pair {
    Socket client;
    Socket server;
    bool breaks = false;  // when the client sends
  };

  void run();
  void take_orders();
  bool pass_on(Pair& pair);

  Socket listener_;
  std::mutex mutex_;
  Endpoint server_;
  std::atomic<Break> order_ = Break::kNot;
  std::atomic<bool> stopping_ = false;
  std::list<Pair> pairs_;  // of the thread
  std::thread thread_;
};

}  // namespace ddp::test
