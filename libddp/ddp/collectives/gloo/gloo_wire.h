// SPDX-License-Identifier: MIT
//
// For sources compiled with Gloo only.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdint>
#include <memory>

#include "ddp/base/buffer.h"
#include "ddp/base/time.h"

namespace ddp {

// Moves messages between this rank and its peers over a connected Gloo context. Sender and receiver
// have agreed on the size before: Gloo ends the process if more arrives than is expected.
//
// All calls throw gloo::Exception if Gloo fails. For one thread.
class GlooWire {
 public:
  // A message on its way. Once it is destroyed, Gloo no longer touches its memory; but then the
  // context is of no use any more unless the message had arrived.
  class Message {
   public:
    // Blocks until the memory is no longer needed, or holds what the peer has sent.
    void wait(const Deadline& deadline);

   private:
    friend class GlooWire;
    Message(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, bool is_sent)
        : buffer_(std::move(buffer)), is_sent_(is_sent) {}

    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    bool is_sent_;
  };

  explicit GlooWire(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  [[nodiscard]] int rank() const { return context_->rank; }
  [[nodiscard]] int size() const { return context_->size; }

  // Start a message without waiting for the peer. Messages of one slot between two ranks arrive in
  // order.
  [[nodiscard]] Message send(int peer, std::uint64_t slot, const Buffer& data) const;
  [[nodiscard]] Message receive(int peer, std::uint64_t slot, const Buffer& data) const;

 private:
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace ddp
