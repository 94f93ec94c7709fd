// SPDX-License-Identifier: MIT
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/base/buffer.h"
#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/net/wake_up.h"
#include "ddp/base/threads/awake_clock.h"
#include "ddp/base/time.h"

namespace ddp {

// Moves messages between this rank and its peers, over one TCP connection each. A message is a tag,
// a size and the bytes; it goes straight between the caller's memory and the sockets. There is no
// thread: messages move while some thread waits for one of them.
//
// A message for which no receive has been started yet holds up the others of that peer. So a rank
// must start what it receives before it waits for anything that the peer sends later.
//
// For one thread, except for abort() and is_aborted().
class TcpWire {
 public:
  // Which of the messages between two ranks it is; equal on both sides.
  using Tag = std::uint64_t;

  // The connection to a peer has broken, and a message needs it.
  class Lost : public NetworkError {
   public:
    Lost(int peer, const std::string& why) : NetworkError(why), peer_(peer) {}
    [[nodiscard]] int peer() const { return peer_; }

   private:
    int peer_;
  };

  // A peer has sent another message than the one that is waited for, which can then never come: no
  // receive was started for it.
  class Unexpected : public Error {
   public:
    Unexpected(int peer, Tag tag, std::vector<std::byte> bytes)
        : Error("an unexpected message came"), peer_(peer), tag_(tag), bytes_(std::move(bytes)) {}
    [[nodiscard]] int peer() const { return peer_; }
    [[nodiscard]] Tag tag() const { return tag_; }
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

   private:
    int peer_;
    Tag tag_;
    std::vector<std::byte> bytes_;
  };

  // A message on its way. After its destruction nothing touches its memory any more; if it has not
  // ended before, no further message goes to or comes from that peer.
  class Message;

  // Is told by the waiting thread with whose messages the current wait ends when nothing has moved
  // for half a second, and of no peers when something moves again. Two ranks that wait so for each
  // other have both sent what the other waits for.
  using OnStall = std::function<void(std::span<const int> peers)>;

  // By rank; this rank's own entry is not open.
  explicit TcpWire(
      std::vector<Socket> sockets, OnStall on_stall = [](std::span<const int>) {});
  ~TcpWire();
  TcpWire(const TcpWire&) = delete;
  TcpWire& operator=(const TcpWire&) = delete;

  // Start a message of at least one byte.
  [[nodiscard]] Message send(int peer, Tag tag, const Buffer& data);
  [[nodiscard]] Message receive(int peer, Tag tag, const Buffer& data);

  // Which decides when deadlines of waits pass.
  [[nodiscard]] AwakeClock& clock() { return clock_; }

  // Blocks until one of the messages, of which there is at least one, has ended. Throws like
  // Message::wait(), and Unexpected only if that holds up one of them and none has ended.
  void wait_for_any(std::span<const Message* const> messages, Deadline deadline);

  // Makes a wait that is running and all later ones throw PeerError.
  void abort();
  [[nodiscard]] bool is_aborted() const { return is_aborted_.load(); }

 private:
  struct Header;
  struct Item;
  class Link;

  [[nodiscard]] Link& link(int peer) { return *links_[static_cast<std::size_t>(peer)]; }
  void move();
  [[noreturn]] void take_obstacle(Link& link, const Header& obstacle, Deadline deadline);
  [[nodiscard]] bool poll(std::span<const Message* const> messages, Deadline deadline);
  [[nodiscard]] static std::vector<int> peers_of(std::span<const Message* const> messages);

  OnStall on_stall_;
  AwakeClock clock_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; this rank's own is null
  WakeUp wake_up_;                            // readable once the wire is aborted
  std::atomic<bool> is_aborted_ = false;
  std::vector<pollfd> polled_;  // kept for its memory
};

class TcpWire::Message {
 public:
  Message(Message&&) noexcept = default;
  Message& operator=(Message&&) noexcept = default;

  // Blocks until the memory is no longer needed, or holds what the peer has sent. Throws
  // TimeoutError, Lost (also for another message's peer), Unexpected, or PeerError after abort().
  void wait(Deadline deadline);
  [[nodiscard]] bool has_ended() const;

 private:
  friend class TcpWire;
  struct GiveUp {
    Link* link = nullptr;
    void operator()(Item* item) const noexcept;
  };
  Message(TcpWire& wire, std::unique_ptr<Item, GiveUp> item);

  TcpWire* wire_;
  std::unique_ptr<Item, GiveUp> item_;
};

// Tags of the messages of collectives and of sends and receives, which are numbered separately.
[[nodiscard]] constexpr TcpWire::Tag exchange_tag(std::uint64_t number) { return 2 * number; }
[[nodiscard]] constexpr TcpWire::Tag transfer_tag(std::uint64_t number) { return 2 * number + 1; }

}  // namespace ddp
