// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/net/socket.h"

namespace ddp::bench {

// The simplest request and reply over TCP: a blocking send and a blocking recv on either side, with
// TCP_NODELAY, over loopback. Each connection has its own echo thread.
class PingPong {
 public:
  struct Exchange {
    std::size_t request_bytes;
    std::size_t reply_bytes;
  };

  explicit PingPong(std::vector<Exchange> exchanges);
  ~PingPong();
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  // Runs all exchanges once.
  void run();

 private:
  std::vector<Exchange> exchanges_;
  Socket client_;
  Socket server_;
  std::string message_;
  std::thread echo_;
};

}  // namespace ddp::bench
