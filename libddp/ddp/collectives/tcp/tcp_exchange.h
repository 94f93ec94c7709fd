// SPDX-License-Identifier: MIT
//
// The messages of an algorithm. Private to tcp_algorithms.cpp and tcp_sums.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/tcp/tcp_algorithms.h"

namespace ddp {

// Messages between this rank and others that have the same number on all ranks.
class TcpAlgorithms::Exchange {
 public:
  explicit Exchange(TcpAlgorithms& owner) : owner_(owner), tag_(exchange_tag(owner.exchanges_++)) {}

  void send(int peer, const Buffer& data) {
    if (data.count > 0) messages_.push_back(owner_.wire_.send(peer, tag_, data));
  }
  void receive(int peer, const Buffer& data) {
    if (data.count > 0) messages_.push_back(owner_.wire_.receive(peer, tag_, data));
  }

  // The same for parts of the ranks' inputs, which may have come with the heads. `offset` is where
  // the part begins in the peer's input.
  void send_input(int peer, const Buffer& part) {
    if (!owner_.is_in_head_) send(peer, part);
  }
  void receive_input(int peer, std::size_t offset, const Buffer& target) {
    if (!owner_.is_in_head_) return receive(peer, target);
    cpu::copy(owner_.input_in_head(peer, target.dtype).slice(offset, target.count), target);
  }

  void finish() {
    for (TcpWire::Message& message : messages_) message.wait(owner_.deadline_);
    messages_.clear();
  }

 private:
  TcpAlgorithms& owner_;
  TcpWire::Tag tag_;
  std::vector<TcpWire::Message> messages_;
};

}  // namespace ddp
