// SPDX-License-Identifier: MIT
#include "ddp/store/tcp_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <span>
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
#include "ddp/store/entrance.h"
#include "ddp/store/served_connection.h"
#include "ddp/store/store_state.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

using Connection = ServedConnection;
using ClientId = StoreState::ClientId;

constexpr ClientId kListener = 0;
constexpr ClientId kWakeUp = 1;
constexpr ClientId kFirstClient = 2;

constexpr const char* kStranger =
    "it is not a store client (it did not send VALIDATE with the right magic number; "
    "PyTorch 1.x sends none and needs a store that rank 0 hosts: "
    "ddp-launch --store worker)";

void check_system(int result, const char* action) {
  if (result < 0) throw SystemError(std::string("[tcp_server] ") + action, errno);
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
      if (!accepting_ && next_accept_.passed()) resume_accepting();
      for (const epoll_event& event : events) handle_event(event);
      flush_replies();
      while (!broken_.empty() && drop_broken()) flush_replies();
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
    if (!broken_.empty()) return static_cast<int>(kAcceptPause.count());  // memory was short
    if (!accepting_) return static_cast<int>(next_accept_.remaining().count());
    return is_stopping_.load() ? static_cast<int>(end_.remaining().count()) : -1;
  }

  void handle_event(const epoll_event& event) {
    const ClientId id = event.data.u64;
    if (id == kListener) return accept_all();
    if (id == kWakeUp) return wake_up_.acknowledge();
    const auto found = connections_.find(id);
    if (found == connections_.end() || found->second.is_broken) return;
    try {
      if ((event.events & EPOLLOUT) != 0) flush(id, found->second);
      if ((event.events & ~EPOLLOUT) != 0) receive(id, found->second);
    } catch (const std::exception& error) {  // also: out of memory
      give_up(id, found->second, error);
    }
  }

  void accept_all() {
    if (!accepting_) return;
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
    if (broken_.capacity() <= connections_.size()) broken_.reserve(2 * connections_.size() + 1);
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
  void pause_accepting(const std::exception& error) noexcept {
    next_accept_ = Deadline::after(kAcceptPause);
    accepting_ = false;
    log_if_possible([&] {
      watch_entrances(EPOLL_EVENTS{});
      drop_silent();
      no_descriptors_.log(std::string("[tcp_server] ") + error.what() + "; " +
                          std::to_string(connections_.size()) +
                          " are open; trying again (ulimit -n is the limit of open files)");
    });
  }

  // Strangers may have taken the descriptors.
  void drop_silent() {
    const NetworkError reason("it has said nothing for 5 s, and its descriptor is needed");
    for (auto& [id, connection] : connections_) {
      const bool is_silent = !connection.validated && connection.validate_by.passed();
      if (is_silent && !connection.is_broken) give_up(id, connection, reason);
    }
  }

  void resume_accepting() noexcept {
    try {
      watch_entrances(EPOLLIN);
      accepting_ = true;
    } catch (const std::exception& error) {
      pause_accepting(error);
    }
  }

  void watch_entrances(EPOLL_EVENTS events) {
    for (const Entrance& entrance : entrances_) {
      watch(entrance.socket.fd(), kListener, events, EPOLL_CTL_MOD);
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

  void flush_replies() {
    for (const ClientId id : pending_) {
      const auto found = connections_.find(id);
      if (found == connections_.end() || found->second.is_broken) continue;
      try {
        flush(id, found->second);
      } catch (const std::exception& error) {
        give_up(id, found->second, error);
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

  // Allocates nothing that it needs, since the reason may be that memory is exhausted: admit() has
  // reserved the place.
  void give_up(ClientId id, Connection& connection, const std::exception& reason) noexcept {
    log_if_possible([&] { log_drop(connection, reason); });
    connection.is_broken = true;
    broken_.push_back(id);
  }

  // Dropping a client may end another one's wait, for which memory may be short: then false, and
  // the rest is for the next round.
  bool drop_broken() noexcept {
    try {
      for (; !broken_.empty(); broken_.pop_back()) {
        state_.forget(broken_.back());
        connections_.erase(broken_.back());
      }
      return true;
    } catch (const std::exception&) {
      return false;
    }
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
  std::vector<ClientId> broken_;   // clients to drop
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
