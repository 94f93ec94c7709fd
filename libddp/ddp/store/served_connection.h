// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/time.h"

namespace ddp {

// How much the server of a store reads from a connection at once.
inline constexpr std::size_t kReadBytes = std::size_t{64} << 10;

// A connection as the server of a store has it.
struct ServedConnection {
  static constexpr Timeout kSilence{5000};

  Socket socket;
  Endpoint peer;                 // asked at accept: after a reset the socket no longer knows it
  std::vector<std::byte> input;  // an unfinished request; usually empty
  std::size_t needed_bytes = 1;  // parsing cannot succeed before input holds this much
  std::string output;
  std::size_t sent_bytes = 0;  // of output
  bool validated = false;
  Deadline validate_by = Deadline::after(kSilence);  // then it may have to make room
  bool waits_for_writable = false;
  bool is_broken = false;  // to be dropped at the end of the round

  [[nodiscard]] std::size_t backlog_bytes() const { return output.size() - sent_bytes; }

  // Keeps the memory in proportion to what is still unsent.
  void forget_sent() {
    if (sent_bytes <= output.size() / 2) return;
    output.erase(0, sent_bytes);
    sent_bytes = 0;
    if (output.capacity() > kReadBytes) output.shrink_to_fit();
  }
};

}  // namespace ddp
