// SPDX-License-Identifier: MIT
#include "ddp/store/tcp_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/limited_warning.h"
#include "ddp/base/log.h"
#include "ddp/base/log_if_possible.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/net/wake_up.h"
#include "ddp/base/system/descriptor_limit.h"
#include "ddp/base/threads/background_thread.h"
#include "ddp/base/threads/spin.h"
#include "ddp/store/loopback_guard.h"
#include "ddp/store/store_state.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

using ClientId = StoreState::ClientId;

constexpr ClientId kListener = 0;
constexpr ClientId kWakeUp = 1;
constexpr ClientId kFirstClient = 2;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr const char* kStranger =
    "it is not a store client (it did not send VALIDATE with the right magic number; "
    "PyTorch 1.x sends none and needs a store that rank 0 hosts: "
    "ddp-launch --store worker)";

struct Connection {
  Socket socket;
  Endpoint peer;                 // asked at accept: after a reset the socket no longer knows it
  std::vector<std::byte> input;  // an unfinished request; usually empty
  std::size_t needed_bytes = 1;  // parsing cannot succeed before input holds this much
  std::string output;
  std::size_t sent_bytes = 0;  // of output
  bool validated = false;
  bool waits_for_writable = false;

  [[nodiscard]] std::size_t backlog_bytes() const { return output.size() - sent_bytes; }

  // Keeps the memory in proportion to what is still unsent.
  void forget_sent() {
    if (sent_bytes <= output.size() / 2) return;
    output.erase(0, sent_bytes);
    sent_bytes = 0;
    if (output.capacity() > kReadBytes) output.shrink_to_fit();
  }
};

void check_system(int result, const char* action) {
  if (result < 0) throw SystemError(std::string("[tcp_server] ") + action, errno);
}

struct Entrance {
  explicit Entrance(const Endpoint& endpoint) : socket(Socket::listen(endpoint)) {}

  Socket socket;
  std::optional<LoopbackGuard> guard = LoopbackGuard::of(socket);
};

std::vector<Entrance> open_entrances(std::span<const Endpoint> endpoints) {
  std::vector<Entrance> entrances;
  std::optional<SystemError> first_error;
  for (const Endpoint& endpoint : endpoints) {
    try {
      entrances.emplace_back(endpoint);
    } catch (const SystemError& error) {
      if (!is_of_another_host(error)) throw;
      if (!first_error) first_error = error;
    }
  }
  if (!entrances.empty()) return entrances;
  if (first_error) throw SystemError(*first_error);
  throw std::invalid_argument("[tcp_server] no endpoint given");
}

}  // namespace

class TcpServer::Impl {
 public:
  Impl(std::span<const Endpoint> endpoints, const TcpServerOptions& options)
      : entrances_(open_entrances(endpoints)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        state_([this](ClientId client, std::string_view bytes) { reply(client, bytes); }),
        spin_(options.spin),
        farewell_(options.farewell) {
    check_system(epoll_.get(), "cannot create an epoll instance");
    for (const Entrance& entrance : entrances_) {
      endpoints_.push_back(entrance.socket.local_endpoint());
      watch(entrance.socket.fd(), kListener, EPOLLIN, EPOLL_CTL_ADD);
    }
    watch(wake_up_.fd(), kWakeUp, EPOLLIN, EPOLL_CTL_ADD);
    raise_descriptor_limit();
    thread_ = start_background_thread("ddp-store", [this] { serve(); });
  }

  ~Impl() {
    end_ = Deadline::after(farewell_);
    is_stopping_.store(true);
    wake_up_.wake();
    thread_.join();
    // Before the connections are: a client that loses its own would reach a server that is gone.
    entrances_.clear();
  }

  [[nodiscard]] const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  void serve() {
    while (!is_over()) {
      if (is_stopping_.load()) stop_listening();
      const std::span<const epoll_event> events = wait_for_events();
      if (!accepting_ && next_accept_.passed()) set_accepting(true);
      for (const epoll_event& event : events) handle_event(event);
      flush_replies();
    }
  }

  // Whoever connects from now on may have come for the next server on this port.
  void stop_listening() {
    entrances_.clear();
    accepting_ = true;  // there is no pause to end
  }

  [[nodiscard]] bool is_over() const {
    return is_stopping_.load() && (connections_.empty() || end_.passed());
  }

  // After a request the next one is likely to come soon, so the server polls for a while before it
  // sleeps.
  std::span<const epoll_event> wait_for_events() {
    int count = 0;
    const auto poll = [&](int milliseconds) {
      count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                           milliseconds);
      return count > 0;
    };
    if (!spin_.until([&] { return poll(0); })) poll(longest_sleep());
    return {events_.data(), static_cast<std::size_t>(std::max(count, 0))};
  }

  // In ms; -1: until an event comes.
  [[nodiscard]] int longest_sleep() const {
    if (!accepting_) return static_cast<int>(next_accept_.remaining().count());
    return is_stopping_.load() ? static_cast<int>(end_.remaining().count()) : -1;
  }

  void handle_event(const epoll_event& event) {
    const ClientId id = event.data.u64;
    if (id == kListener) return accept_all();
    if (id == kWakeUp) return wake_up_.acknowledge();
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;  // dropped earlier in this round
    try {
      if ((event.events & EPOLLOUT) != 0) flush(id, found->second);
      if ((event.events & ~EPOLLOUT) != 0) receive(id, found->second);
    } catch (const std::exception& error) {  // also: out of memory
      drop(id, error);
    }
  }

  void accept_all() {
    try {
      for (Entrance& entrance : entrances_) {
        Endpoint peer;
        while (std::optional<Socket> socket = entrance.socket.accept(&peer)) {
          if (is_admitted(entrance, *socket, peer)) admit(std::move(*socket), peer);
        }
      }
    } catch (const std::exception& error) {  // also: out of memory
      pause_accepting(error);
    }
  }

  void admit(Socket socket, const Endpoint& peer) {
    const ClientId id = next_client_++;
    watch(socket.fd(), id, EPOLLIN, EPOLL_CTL_ADD);
    Connection connection;
    connection.peer = peer;
    connection.socket = std::move(socket);
    connections_.emplace(id, std::move(connection));
  }

  bool is_admitted(const Entrance& entrance, const Socket& socket, const Endpoint& peer) {
    const std::string refusal = entrance.guard ? entrance.guard->refusal(socket) : "";
    if (!refusal.empty()) {
      drops_.log("[tcp_server] refused the connection from " + to_string(peer) + ": " + refusal);
    }
    return refusal.empty();
  }

  // Descriptors are exhausted, or memory: pending connections stay in the kernel's backlog for a
  // while.
  void pause_accepting(const std::exception& error) {
    next_accept_ = Deadline::after(kAcceptPause);
    set_accepting(false);
    log_if_possible([&] {
      no_descriptors_.log(std::string("[tcp_server] ") + error.what() + "; " +
                          std::to_string(connections_.size()) +
                          " are open; trying again (ulimit -n is the limit of open files)");
    });
  }

  void set_accepting(bool accepting) {
    accepting_ = accepting;
    for (const Entrance& entrance : entrances_) {
      watch(entrance.socket.fd(), kListener, accepting ? EPOLLIN : EPOLL_EVENTS{}, EPOLL_CTL_MOD);
    }
  }

  // Reads once per event. Level-triggered epoll returns while there is more, so a client that
  // floods the server takes turns with the others.
  void receive(ClientId id, Connection& connection) {
    const auto received = connection.socket.receive_some(read_buffer_);
    if (!received) return;
    std::span<const std::byte> fresh(read_buffer_.data(), *received);
    if (connection.input.empty()) {
      const std::size_t used = handle_requests(id, connection, fresh);
      fresh = fresh.subspan(used);
      connection.input.assign(fresh.begin(), fresh.end());
      return;
    }
    // Not insert(), for which GCC 14 warns of an overflow that cannot happen.
    connection.input.resize(connection.input.size() + fresh.size());
    std::ranges::copy(fresh, connection.input.end() - std::ssize(fresh));
    if (connection.input.size() < connection.needed_bytes) return;
    const std::size_t used = handle_requests(id, connection, connection.input);
    connection.input.erase(connection.input.begin(),
                           connection.input.begin() + static_cast<std::ptrdiff_t>(used));
    if (connection.input.empty()) std::vector<std::byte>().swap(connection.input);
  }

  // Serves all complete requests; returns the bytes used.
  std::size_t handle_requests(ClientId id, Connection& connection,
                              std::span<const std::byte> bytes) {
    std::size_t used = 0;
    for (;;) {
      const auto rest = bytes.subspan(used);
      if (!connection.validated) require_validate(rest);
      const wire::ParseResult parsed = wire::parse_request(rest, request_);
      if (parsed.status == wire::ParseStatus::kMalformed) throw NetworkError(parsed.reason);
      if (parsed.status == wire::ParseStatus::kIncomplete) {
        connection.needed_bytes = parsed.size_bytes;
        return used;
      }
      used += parsed.size_bytes;
      if (connection.validated) {
        state_.handle(id, request_);
        bound_backlog(id, connection);
      } else {
        validate(connection);
      }
    }
  }

  // The peer may not be a store client at all, so nothing else is accepted or kept before this.
  static void require_validate(std::span<const std::byte> bytes) {
    const auto opcode = static_cast<std::byte>(wire::Opcode::kValidate);
    if (!bytes.empty() && bytes[0] != opcode) throw NetworkError(kStranger);
  }

  void validate(Connection& connection) const {
    if (request_.number != static_cast<std::int64_t>(wire::kMagic)) throw NetworkError(kStranger);
    connection.validated = true;
  }

  void reply(ClientId client, std::string_view bytes) {
    Connection& connection = connections_.at(client);
    if (connection.output.empty()) pending_.push_back(client);
    connection.output.append(bytes);
  }

  // Drops a client that sends requests but does not read the replies.
  void bound_backlog(ClientId id, Connection& connection) {
    if (connection.backlog_bytes() <= wire::kMaxReplyBytes) return;
    flush(id, connection);
    if (connection.backlog_bytes() <= wire::kMaxReplyBytes) return;
    throw NetworkError("it does not read its replies");
  }

  // Dropping a client may end another one's wait, and so add to pending_.
  void flush_replies() {
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      const ClientId id = pending_[i];
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      try {
        flush(id, found->second);
      } catch (const std::exception& error) {
        drop(id, error);
      }
    }
    pending_.clear();
  }

  void flush(ClientId id, Connection& connection) {
    while (connection.backlog_bytes() > 0) {
      const auto rest = std::as_bytes(std::span(connection.output)).subspan(connection.sent_bytes);
      const std::size_t sent = connection.socket.send_some(rest);
      if (sent == 0) break;
      connection.sent_bytes += sent;
    }
    connection.forget_sent();
    const bool blocked = connection.backlog_bytes() > 0;
    if (blocked != connection.waits_for_writable) {
      connection.waits_for_writable = blocked;
      watch(connection.socket.fd(), id, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    }
  }

  void drop(ClientId id, const std::exception& reason) {
    const auto found = connections_.find(id);
    log_if_possible([&] { log_drop(found->second, reason); });
    state_.forget(id);
    connections_.erase(found);
  }

  // A client that just disconnected is not worth a line; one that misbehaved causes a warning.
  void log_drop(const Connection& connection, const std::exception& reason) {
    const bool is_between_requests = connection.validated && connection.input.empty();
    const std::string line = "[tcp_server] dropped the connection from " +
                             to_string(connection.peer) + ": " + reason.what();
    if (is_between_requests && dynamic_cast<const HangUpError*>(&reason) != nullptr) {
      logging::debug(line);
    } else {
      drops_.log(line);
    }
  }

  void watch(int fd, ClientId id, std::uint32_t events, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    check_system(::epoll_ctl(epoll_.get(), operation, fd, &event), "cannot watch a socket");
  }

  static constexpr Timeout kAcceptPause{100};

  std::vector<Entrance> entrances_;
  std::vector<Endpoint> endpoints_;
  FileDescriptor epoll_;
  WakeUp wake_up_;
  std::array<epoll_event, 64> events_;
  StoreState state_;
  Spin spin_;
  Timeout farewell_;
  std::unordered_map<ClientId, Connection> connections_;
  ClientId next_client_ = kFirstClient;
  bool accepting_ = true;
  Deadline next_accept_ = Deadline::after(Timeout(0));
  LimitedWarning no_descriptors_;
  LimitedWarning drops_;
  std::vector<std::byte> read_buffer_ = std::vector<std::byte>(kReadBytes);
  std::vector<ClientId> pending_;  // clients with fresh output
  wire::Request request_;
  Deadline end_ = Deadline::after(Timeout(0));  // written once, before is_stopping_
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

TcpServer::TcpServer(const Endpoint& endpoint, const TcpServerOptions& options)
    : TcpServer(std::span(&endpoint, 1), options) {}
TcpServer::TcpServer(std::span<const Endpoint> endpoints, const TcpServerOptions& options)
    : impl_(std::make_unique<Impl>(endpoints, options)) {}
TcpServer::~TcpServer() = default;

Endpoint TcpServer::endpoint() const { return endpoints().front(); }
const std::vector<Endpoint>& TcpServer::endpoints() const { return impl_->endpoints(); }

}  // namespace ddp
