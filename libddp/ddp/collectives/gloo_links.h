// SPDX-License-Identifier: MIT
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <vector>

namespace ddp {

// Whether the connections to the peers still stand.
//
// An operation hears from Gloo that its connection has broken, but for one that is in the middle of
// a message, of which Gloo does not think (Pair::signalException): it waits until its timeout.
class GlooLinks {
 public:
  explicit GlooLinks(std::shared_ptr<gloo::Context> context);

  // Of another rank. Does not block; for one thread at a time.
  [[nodiscard]] bool is_broken(int rank) const;

 private:
  std::shared_ptr<gloo::Context> context_;
  // By rank: each waits for a message that the peer never sends, and hears of the end.
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> listeners_;
};

}  // namespace ddp
