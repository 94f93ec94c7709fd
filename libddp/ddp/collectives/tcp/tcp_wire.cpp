// SPDX-License-Identifier: MIT
#include "ddp/collectives/tcp/tcp_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "ddp/base/net/poll_until.h"

namespace ddp {
namespace {

constexpr Timeout kStallAfter{500};

}  // namespace

// What precedes the bytes of a message. All ranks run the same build, on little-endian processors.
struct TcpWire::Header {
  Tag tag = 0;
  std::uint64_t size_bytes = 0;
};

// One message, which its link knows until it has ended.
struct TcpWire::Item {
  Header header;
  std::span<std::byte> bytes;
  std::size_t moved = 0;  // of the header and the bytes if it is sent, else of the bytes
  bool has_ended = false;
};

// The connection to one peer.
class TcpWire::Link {
 public:
  Link(int peer, Socket socket) : peer_(peer), socket_(std::move(socket)) {}
  // Shut down, not just closed: a forked child may hold the socket, too.
  ~Link() { socket_.shut_down(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(Item& item) { outgoing_.push_back(&item); }
  void receive(Item& item) {
    incoming_.push_back(&item);
    is_held_up_ = false;
  }

  // Moves as much as possible without waiting.
  void move() {
    if (is_given_up_) return;
    try {
      while (!outgoing_.empty() && send_some()) {
      }
      while (!incoming_.empty() && !is_held_up_ && receive_some()) {
      }
    } catch (const NetworkError& error) {
      throw Lost(peer_, error.what());
    }
  }

  // What to wait for; nothing if no events are set.
  [[nodiscard]] pollfd awaited() const {
    short events = 0;
    if (!outgoing_.empty()) events |= POLLOUT;
    if (!incoming_.empty() && !is_held_up_) events |= POLLIN;
    return {socket_.fd(), is_given_up_ ? short{0} : events, 0};
  }

  [[nodiscard]] int peer() const { return peer_; }

  // The message that holds up this one for good, since nobody but the waiting thread could start
  // its receive; null if there is none.
  [[nodiscard]] const Header* obstacle_of(const Item& item) const {
    return is_held_up_ && std::ranges::count(incoming_, &item) > 0 ? &header_ : nullptr;
  }

  // A message may have been moved in part, so nothing can follow it.
  void give_up(const Item& item) noexcept {
    is_given_up_ = true;
    std::erase(outgoing_, &item);
    std::erase(incoming_, &item);
    if (current_ == &item) current_ = nullptr;
  }

 private:
  // These return false if the socket has no room or no bytes left.
  bool send_some() {
    Item& item = *outgoing_.front();
    const auto header = std::as_bytes(std::span(&item.header, 1));
    const std::size_t in_header = std::min(item.moved, header.size());
    const std::size_t sent =
        socket_.send_some(header.subspan(in_header), item.bytes.subspan(item.moved - in_header));
    item.moved += sent;
    item.has_ended = item.moved == header.size() + item.bytes.size();
    if (item.has_ended) outgoing_.pop_front();
    return sent > 0;
  }

  bool receive_some() {
    if (current_ == nullptr) return receive_header();
    const auto received = socket_.receive_some(current_->bytes.subspan(current_->moved));
    if (!received) return false;
    current_->moved += *received;
    if (current_->moved < current_->bytes.size()) return true;
    current_->has_ended = true;
    std::erase(incoming_, current_);
    current_ = nullptr;
    header_bytes_ = 0;
    return true;
  }

  bool receive_header() {
    const auto header = std::as_writable_bytes(std::span(&header_, 1));
    if (header_bytes_ < header.size()) {
      const auto received = socket_.receive_some(header.subspan(header_bytes_));
      if (!received) return false;
      header_bytes_ += *received;
      if (header_bytes_ < header.size()) return true;
    }
    const auto expected = std::ranges::find(incoming_, header_.tag,
                                            [](const Item* item) { return item->header.tag; });
    is_held_up_ = expected == incoming_.end();
    if (is_held_up_) return false;
    if ((*expected)->bytes.size() != header_.size_bytes) {
      throw NetworkError("a message of " + std::to_string(header_.size_bytes) +
                         " bytes came where " + std::to_string((*expected)->bytes.size()) +
                         " were expected");
    }
    current_ = *expected;
    return true;
  }

  int peer_;
  Socket socket_;
  std::deque<Item*> outgoing_;
  std::vector<Item*> incoming_;
  Item* current_ = nullptr;  // whose header has come
  Header header_;
  std::size_t header_bytes_ = 0;
  bool is_held_up_ = false;  // by a message for which no receive has been started
  bool is_given_up_ = false;
};

TcpWire::TcpWire(std::vector<Socket> sockets, OnStall on_stall) : on_stall_(std::move(on_stall)) {
  for (Socket& socket : sockets) {
    const int peer = static_cast<int>(links_.size());
    links_.push_back(socket.is_open() ? std::make_unique<Link>(peer, std::move(socket)) : nullptr);
  }
}

TcpWire::~TcpWire() = default;

TcpWire::Message TcpWire::send(int peer, Tag tag, const Buffer& data) {
  const std::span bytes(static_cast<std::byte*>(data.data), data.size_bytes());
  Link& to = link(peer);
  std::unique_ptr<Item, Message::GiveUp> item(new Item{{tag, bytes.size()}, bytes}, {&to});
  to.send(*item);
  to.move();
  return {*this, std::move(item)};
}

TcpWire::Message TcpWire::receive(int peer, Tag tag, const Buffer& data) {
  const std::span bytes(static_cast<std::byte*>(data.data), data.size_bytes());
  Link& from = link(peer);
  std::unique_ptr<Item, Message::GiveUp> item(new Item{{tag, bytes.size()}, bytes}, {&from});
  from.receive(*item);
  return {*this, std::move(item)};
}

void TcpWire::abort() {
  is_aborted_.store(true);
  wake_up_.wake();
}

void TcpWire::wait_for_any(std::span<const Message* const> messages, Deadline deadline) {
  const auto has_one_ended = [&] { return std::ranges::any_of(messages, &Message::has_ended); };
  for (;;) {
    if (is_aborted()) throw PeerError("the connections were given up");
    if (has_one_ended()) return;
    move();
    if (has_one_ended()) return;
    for (const Message* const message : messages) {
      Link& link = *message->item_.get_deleter().link;
      const Header* const obstacle = link.obstacle_of(*message->item_);
      if (obstacle != nullptr) take_obstacle(link, *obstacle, deadline);
    }
    if (!poll(messages, deadline)) throw TimeoutError("timed out");
  }
}

void TcpWire::take_obstacle(Link& link, const Header& obstacle, Deadline deadline) {
  const Tag tag = obstacle.tag;
  std::vector<std::byte> bytes(obstacle.size_bytes);
  receive(link.peer(), tag, {bytes.data(), bytes.size(), DType::kUInt8, kCpuDevice}).wait(deadline);
  throw Unexpected(link.peer(), tag, std::move(bytes));
}

void TcpWire::move() {
  for (const auto& link : links_) {
    if (link) link->move();
  }
}

bool TcpWire::poll(std::span<const Message* const> messages, Deadline deadline) {
  polled_.assign({{wake_up_.fd(), POLLIN, 0}});
  for (const auto& link : links_) {
    if (!link) continue;
    const pollfd awaited = link->awaited();
    if (awaited.events != 0) polled_.push_back(awaited);
  }
  for (bool has_stalled = false;;) {
    const Timeout turn = std::min(kStallAfter, clock_.remaining(deadline));
    const bool moves = poll_until(polled_, Deadline::after(turn));
    if (moves && has_stalled) on_stall_({});
    if (moves || clock_.remaining(deadline) == Timeout(0)) return moves;
    if (!std::exchange(has_stalled, true)) on_stall_(peers_of(messages));
  }
}

std::vector<int> TcpWire::peers_of(std::span<const Message* const> messages) {
  std::vector<int> peers;
  for (const Message* const message : messages) {
    const int peer = message->item_.get_deleter().link->peer();
    if (std::ranges::count(peers, peer) == 0) peers.push_back(peer);
  }
  return peers;
}

TcpWire::Message::Message(TcpWire& wire, std::unique_ptr<Item, GiveUp> item)
    : wire_(&wire), item_(std::move(item)) {}

void TcpWire::Message::wait(Deadline deadline) {
  const Message* const self = this;
  wire_->wait_for_any({&self, 1}, deadline);
}

bool TcpWire::Message::has_ended() const { return item_->has_ended; }

void TcpWire::Message::GiveUp::operator()(Item* item) const noexcept {
  if (!item->has_ended) link->give_up(*item);
  delete item;
}

}  // namespace ddp
