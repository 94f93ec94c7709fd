// SPDX-License-Identifier: MIT
//
// Every rank listens, and calls the ranks below it.
#include "ddp/collectives/tcp/tcp_mesh.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/field_lines.h"
#include "ddp/base/net/poll_until.h"
#include "ddp/base/system/descriptor_limit.h"

namespace ddp {
namespace {

// The first bytes of a connection, sent by the rank that calls.
struct Greeting {
  std::uint64_t secret = 0;  // of the rank that is called
  std::int64_t rank = 0;     // that calls
};

// What a rank publishes.
struct Listener {
  Endpoint endpoint;
  std::uint64_t secret = 0;
};

std::string key_of(int rank) { return "tcp/" + std::to_string(rank); }

std::uint64_t draw_secret() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

// A link-local address is followed by the interface as its own host calls it, which says nothing to
// the others.
std::string without_scope(const std::string& host) { return host.substr(0, host.find('%')); }

// Others' link-local addresses are on the interface on which this rank has its own.
Endpoint with_own_scope(Endpoint peer, const std::string& own_address) {
  const std::size_t scope = own_address.find('%');
  if (scope != std::string::npos && peer.host.starts_with("fe80:")) {
    peer.host += own_address.substr(scope);
  }
  return peer;
}

void publish(Store& store, int rank, const Listener& listener) {
  FieldWriter fields;
  fields << without_scope(listener.endpoint.host) << listener.endpoint.port << listener.secret;
  store.set(key_of(rank), fields.text());
}

Listener find(Store& store, int rank, Deadline deadline) {
  const std::string text = store.get(key_of(rank), deadline.remaining());
  FieldReader fields(text);
  Listener listener;
  fields >> listener.endpoint.host >> listener.endpoint.port >> listener.secret;
  if (!fields) throw NetworkError("this is not the address of a rank: \"" + text + "\"");
  return listener;
}

Socket call(const Listener& listener, int own_rank, Deadline deadline) {
  Socket socket = Socket::connect(listener.endpoint, deadline);
  const Greeting greeting{listener.secret, own_rank};
  socket.send_all(std::as_bytes(std::span(&greeting, 1)), deadline);
  return socket;
}

// A connection that has not told yet who it is.
class Caller {
 public:
  explicit Caller(Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] const Socket& socket() const { return socket_; }
  [[nodiscard]] Socket take_socket() { return std::move(socket_); }

  // Reads what is there; the whole greeting, once it is. Throws NetworkError if the caller hangs
  // up.
  [[nodiscard]] std::optional<Greeting> read() {
    const auto rest = std::span(bytes_).subspan(received_);
    received_ += socket_.receive_some(rest).value_or(0);
    if (received_ < bytes_.size()) return std::nullopt;
    Greeting greeting;
    std::copy(bytes_.begin(), bytes_.end(), reinterpret_cast<std::byte*>(&greeting));
    return greeting;
  }

 private:
  Socket socket_;
  std::array<std::byte, sizeof(Greeting)> bytes_{};
  std::size_t received_ = 0;
};

// Accepts the calls of the ranks above this one.
class Reception {
 public:
  Reception(Socket& listener, std::uint64_t secret, std::vector<Socket>& links, int own_rank)
      : listener_(listener), secret_(secret), links_(links), own_rank_(own_rank) {}

  void run(const GroupNames& names, Deadline deadline, MeshWait& progress) {
    const std::string own = to_string(listener_.local_endpoint());
    for (;;) {
      const std::vector<int> missing = awaited();
      if (missing.empty()) return;
      progress.set("no connection from " + names.ranks(missing) + " has come to " + own);
      if (!wait(deadline)) throw TimeoutError(names.ranks(missing) + " did not call");
      for (std::size_t i = 0; i < kStrangers && accept_one(); ++i) {
      }
      keep_callers(links_.size() + kStrangers);
    }
  }

 private:
  // How many callers may be waiting beside the ranks.
  static constexpr std::size_t kStrangers = 64;

  // False if nobody calls, or there was no descriptor left, for which this rank must not fail:
  // strangers may have taken them.
  [[nodiscard]] bool accept_one() {
    try {
      std::optional<Socket> socket = listener_.accept();
      if (socket) callers_.emplace_back(std::move(*socket));
      return socket.has_value();
    } catch (const SystemError& error) {
      const bool is_exhausted = error.error_number() == EMFILE || error.error_number() == ENFILE;
      if (!is_exhausted || callers_.empty()) throw;
      keep_callers(callers_.size() - 1);
      return false;
    }
  }

  // Ranks greet at once, so those who have said nothing for longest are strangers.
  void keep_callers(std::size_t most) {
    std::erase_if(callers_, [this](Caller& caller) { return is_done(caller); });
    if (callers_.size() <= most) return;
    callers_.erase(callers_.begin(), callers_.end() - static_cast<std::ptrdiff_t>(most));
  }

  [[nodiscard]] bool wait(Deadline deadline) const {
    std::vector<pollfd> entries = {{listener_.fd(), POLLIN, 0}};
    for (const Caller& caller : callers_) entries.push_back({caller.socket().fd(), POLLIN, 0});
    return poll_until(entries, deadline);
  }

  // True if the caller has become a link, or is none.
  [[nodiscard]] bool is_done(Caller& caller) {
    try {
      const std::optional<Greeting> greeting = caller.read();
      if (!greeting) return false;
      if (greeting->secret == secret_ && is_awaited(greeting->rank)) {
        links_[static_cast<std::size_t>(greeting->rank)] = caller.take_socket();
      }
    } catch (const NetworkError&) {
      // A stranger, or a rank that has failed and says so in the store.
    }
    return true;
  }

  [[nodiscard]] std::vector<int> awaited() const {
    std::vector<int> ranks;
    for (int rank = own_rank_ + 1; rank < std::ssize(links_); ++rank) {
      if (is_awaited(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  [[nodiscard]] bool is_awaited(std::int64_t rank) const {
    return rank > own_rank_ && rank < std::ssize(links_) &&
           !links_[static_cast<std::size_t>(rank)].is_open();
  }

  Socket& listener_;
  std::uint64_t secret_;
  std::vector<Socket>& links_;
  int own_rank_;
  std::vector<Caller> callers_;
};

}  // namespace

std::vector<Socket> connect_mesh(Store& store, const MeshMember& own, const GroupNames& names,
                                 const MeshDeadlines& deadlines, MeshWait& wait) {
  raise_descriptor_limit();
  Socket socket = Socket::listen({own.address, 0});
  const Listener listener{socket.local_endpoint(), draw_secret()};
  publish(store, own.rank, listener);
  std::vector<Socket> links(static_cast<std::size_t>(own.world_size));
  for (int peer = 0; peer < own.rank; ++peer) {
    try {
      wait.set(names.rank(peer) + " has not told its address");
      Listener called = find(store, peer, deadlines.for_calls);
      called.endpoint = with_own_scope(called.endpoint, own.address);
      wait.set(names.rank(peer) + " cannot be reached at " + to_string(called.endpoint));
      links[static_cast<std::size_t>(peer)] = call(called, own.rank, deadlines.for_calls);
    } catch (const NetworkError& error) {
      throw NetworkError(names.rank(peer) + ": " + error.what());
    }
  }
  Reception(socket, listener.secret, links, own.rank).run(names, deadlines.for_callers, wait);
  wait.set("");
  return links;
}

}  // namespace ddp
