// SPDX-License-Identifier: MIT
#include "support/relay.h"

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>

#include "ddp/base/error.h"

namespace ddp::test {
namespace {

constexpr Timeout kPatience = std::chrono::seconds(10);
constexpr Timeout kBetweenLooks{1};

// Returns how many; throws NetworkError if the connection is over.
std::size_t pass_bytes(Socket& from, Socket& to) {
  std::array<std::byte, 4096> bytes;
  std::size_t total = 0;
  while (const auto count = from.receive_some(bytes)) {
    to.send_all(std::span(bytes).first(*count), Deadline::after(kPatience));
    total += *count;
  }
  return total;
}

}  // namespace

Relay::Relay(const Endpoint& server)
    : listener_(Socket::listen({"127.0.0.2", 0})),
      endpoint_(listener_.local_endpoint()),
      server_(server),
      thread_([this] { run(); }) {}

Relay::~Relay() {
  stopping_ = true;
  thread_.join();
}

void Relay::break_now() { give(Order::kBreakNow); }

void Relay::break_at_next_byte() { give(Order::kBreakAtNextByte); }

void Relay::hold() { give(Order::kHold); }

void Relay::pass_again() { give(Order::kPassAgain); }

void Relay::refuse() { give(Order::kRefuse); }

void Relay::accept_again() { give(Order::kAcceptAgain); }

void Relay::lead_to(const Endpoint& server) {
  const std::lock_guard lock(mutex_);
  server_ = server;
}

void Relay::give(Order order) {
  order_ = order;
  while (order_ != Order::kNone) std::this_thread::sleep_for(kBetweenLooks);
}

void Relay::run() {
  while (!stopping_) {
    if (const Order order = order_; order != Order::kNone) {
      carry_out(order);
      order_ = Order::kNone;
    }
    while (auto client = listener_.is_open() ? listener_.accept() : std::nullopt) {
      const std::lock_guard lock(mutex_);
      pairs_.push_back({std::move(*client), Socket::connect(server_, Deadline::after(kPatience))});
    }
    if (!holds_) std::erase_if(pairs_, [this](Pair& pair) { return !pass_on(pair); });
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void Relay::carry_out(Order order) {
  if (order == Order::kBreakAtNextByte) {
    for (Pair& pair : pairs_) pair.breaks = true;
  }
  if (order == Order::kBreakNow || order == Order::kRefuse) {
    for (Pair& pair : pairs_) {
      pair.client.abandon();
      pair.server.abandon();
    }
    pairs_.clear();
  }
  if (order == Order::kHold) holds_ = true;
  if (order == Order::kPassAgain) holds_ = false;
  if (order == Order::kRefuse) listener_.close();
  if (order == Order::kAcceptAgain) listener_ = Socket::listen(endpoint_);
}

bool Relay::pass_on(Pair& pair) {
  try {
    if (!pair.breaks) {
      bytes_to_server_ += pass_bytes(pair.client, pair.server);
      pass_bytes(pair.server, pair.client);
      return true;
    }
    if (!pair.client.wait_readable(Deadline::after(Timeout(0)))) return true;
    pair.client.abandon();
    pair.server.abandon();
    return false;
  } catch (const NetworkError&) {
    return false;
  }
}

}  // namespace ddp::test
