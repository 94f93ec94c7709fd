// SPDX-License-Identifier: MIT
#include "support/relay.h"

#include <array>
#include <chrono>
#include <mutex>
#include <span>

#include "ddp/base/error.h"
#include "support/loopback.h"

namespace ddp::test {
namespace {

constexpr Timeout kPatience = std::chrono::seconds(10);
constexpr Timeout kBetweenLooks{1};

// False if the connection is over.
bool pass_bytes(Socket& from, Socket& to) {
  std::array<std::byte, 4096> bytes;
  while (const auto count = from.receive_some(bytes)) {
    to.send_all(std::span(bytes).first(*count), Deadline::after(kPatience));
  }
  return true;
}

}  // namespace

Relay::Relay(const Endpoint& server)
    : listener_(Socket::listen(kLoopback)), server_(server), thread_([this] { run(); }) {}

Relay::~Relay() {
  stopping_ = true;
  thread_.join();
}

void Relay::break_now() {
  order_ = Break::kNow;
  while (order_ != Break::kNot) std::this_thread::sleep_for(kBetweenLooks);
}

void Relay::break_at_next_byte() {
  order_ = Break::kAtNextByte;
  while (order_ != Break::kNot) std::this_thread::sleep_for(kBetweenLooks);
}

void Relay::lead_to(const Endpoint& server) {
  const std::lock_guard lock(mutex_);
  server_ = server;
}

void Relay::run() {
  while (!stopping_) {
    take_orders();
    while (auto client = listener_.accept()) {
      const std::lock_guard lock(mutex_);
      pairs_.push_back({std::move(*client), Socket::connect(server_, Deadline::after(kPatience))});
    }
    std::erase_if(pairs_, [this](Pair& pair) { return !pass_on(pair); });
    (void)listener_.wait_readable(Deadline::after(kBetweenLooks));
  }
}

void Relay::take_orders() {
  if (order_ == Break::kNow) {
    for (Pair& pair : pairs_) {
      pair.client.abandon();
      pair.server.abandon();
    }
    pairs_.clear();
  }
  if (order_ == Break::kAtNextByte) {
    for (Pair& pair : pairs_) pair.breaks = true;
  }
  order_ = Break::kNot;
}

bool Relay::pass_on(Pair& pair) {
  try {
    if (!pair.breaks)
      return pass_bytes(pair.client, pair.server) && pass_bytes(pair.server, pair.client);
    if (!pair.client.wait_readable(Deadline::after(Timeout(0)))) return true;
    pair.client.abandon();
    pair.server.abandon();
    return false;
  } catch (const NetworkError&) {
    return false;
  }
}

}  // namespace ddp::test
