// SPDX-License-Identifier: MIT
#include "ddp/collectives/gloo/gloo_wire.h"

#include <algorithm>

namespace ddp {

void GlooWire::Message::wait(const Deadline& deadline) {
  const Timeout left = std::max(deadline.remaining(), Timeout(1));
  is_sent_ ? buffer_->waitSend(left) : buffer_->waitRecv(left);
}

GlooWire::Message GlooWire::send(int peer, std::uint64_t slot, const Buffer& data) const {
  Message message(context_->createUnboundBuffer(data.data, data.size_bytes()), true);
  message.buffer_->send(peer, slot);
  return message;
}

GlooWire::Message GlooWire::receive(int peer, std::uint64_t slot, const Buffer& data) const {
  Message message(context_->createUnboundBuffer(data.data, data.size_bytes()), false);
  message.buffer_->recv(peer, slot);
  return message;
}

}  // namespace ddp
