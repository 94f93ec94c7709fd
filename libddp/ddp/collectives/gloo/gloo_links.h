// SPDX-License-Identifier: MIT
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <vector>

namespace ddp {

// Detects broken connections to the peers.
//
// Gloo tells operations that their connection has broken, except one that is in the middle of a
// message (Pair::signalException overlooks it), which waits until its timeout.
class GlooLinks {
 public:
  explicit GlooLinks(std::shared_ptr<gloo::Context> context);

  // True if the connection to another rank is broken. Does not block; for one thread at a time.
  [[nodiscard]] bool is_broken(int rank) const;

 private:
  std::shared_ptr<gloo::Context> context_;
  // By rank: each waits for a message that the peer never sends, so it only ends when the
  // connection does.
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> listeners_;
};

}  // namespace ddp
