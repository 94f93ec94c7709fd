// SPDX-License-Identifier: MIT
#include "ddp/store/tcp_store.h"

#include <unistd.h>

#include <array>
#include <mutex>

#include "ddp/base/error.h"
#include "ddp/base/timed_mutex.h"
#include "ddp/store/wire.h"

namespace ddp {
namespace {

std::string quoted_list(std::span<const std::string> keys) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), kShown); ++i) {
    text += (i == 0 ? "\"" : ", \"") + keys[i] + "\"";
  }
  if (keys.size() > kShown) text += ", and " + std::to_string(keys.size() - kShown) + " more";
  return text;
}

// The server would answer with a closed connection, and only to the next call.
void check_sendable(std::string_view value) {
  if (value.size() <= wire::kMaxValueBytes) return;
  throw std::invalid_argument("[tcp_store] a value of " + std::to_string(value.size()) +
                              " bytes is over the limit of " +
                              std::to_string(wire::kMaxValueBytes));
}

}  // namespace

class TcpStore::Impl {
 public:
  Impl(const Endpoint& endpoint, const TcpStoreOptions& options)
      : endpoint_(endpoint), options_(options), spin_(options.spin) {
    explained({"connect", {}, options.timeout}, [&] { connect(Deadline::after(options.timeout)); });
  }

  // Runs one exchange under the lock. Afterwards the connection is in step, or closed: for good,
  // or, if the server was only late (it may have been stopped for a while), until the next call.
  template <class F>
  auto call(const char* operation, std::span<const std::string> keys, Timeout timeout,
            F&& exchange) {
    const Call call{operation, keys, timeout};
    const Deadline deadline = Deadline::after(timeout);
    const std::unique_lock lock(mutex_, deadline.time_point());
    if (!lock.owns_lock()) throw timed_out(call, " behind another operation of this store");
    return explained(call, [&] {
      if (!socket_.is_open() && !was_late_) throw NetworkError("the connection is closed");
      if (!socket_.is_open()) connect(deadline);
      return exchange(deadline);
    });
  }

  wire::Writer request(wire::Opcode opcode) {
    out_.clear();
    wire::Writer writer(out_);
    writer.opcode(opcode);
    return writer;
  }

  wire::Writer request(wire::Opcode opcode, std::span<const std::string> keys) {
    wire::Writer writer = request(opcode);
    writer.integer(static_cast<std::uint64_t>(keys.size()));
    for (const std::string& key : keys) writer.user_key(key);
    return writer;
  }

  void send(Deadline deadline) { socket_.send_all(std::as_bytes(std::span(out_)), deadline); }

  template <class T>
  T receive(Deadline deadline) {
    T value{};
    receive_into(std::as_writable_bytes(std::span(&value, 1)), deadline);
    return value;
  }

  std::string receive_bytes(Deadline deadline) {
    const auto length = receive<std::uint64_t>(deadline);
    if (length > wire::kMaxRequestBytes) throw NetworkError("the server sent an absurd length");
    std::string value(length, '\0');
    receive_into(std::as_writable_bytes(std::span(value)), deadline);
    return value;
  }

  // Sends the WAIT or BARRIER in out_ and waits for its end. On a timeout the wait is taken back;
  // if the answer crosses with that, it counts.
  void wait_for_stop(Deadline deadline) {
    send(deadline);
    if (!fill(deadline)) {
      const Deadline grace = Deadline::after(kReplyGrace);
      request(wire::Opcode::kCancelWait);
      send(grace);
      const bool cancelled = receive<std::uint8_t>(grace) == wire::kWaitCanceled;
      if (cancelled) throw WaitCancelled();
      receive<std::uint8_t>(grace);  // the answer came first; this is the cancellation's
      return;
    }
    if (receive<std::uint8_t>(deadline) != wire::kStopWaiting) {
      throw NetworkError("unexpected answer to a wait");
    }
  }

  std::vector<std::string> wait_then_get(wire::Opcode opcode, std::span<const std::string> keys,
                                         Deadline deadline) {
    request(wire::Opcode::kWait, keys);
    wait_for_stop(deadline);
    deadline = for_reply(deadline);
    if (opcode == wire::Opcode::kGet) {
      request(opcode).user_key(keys[0]);
    } else {
      request(opcode, keys);
    }
    send(deadline);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(receive_bytes(deadline));
    return values;
  }

  // Once a wait is over, the server answers at once: a wait that ended in its last moment must not
  // cost the connection.
  [[nodiscard]] static Deadline for_reply(Deadline deadline) {
    return Deadline::after(std::max(deadline.remaining(), kReplyGrace));
  }

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] const TcpStoreOptions& options() const { return options_; }
  [[nodiscard]] std::string local_address() const { return socket_.local_endpoint().host; }

 private:
  static constexpr Timeout kReplyGrace = std::chrono::seconds(5);

  // A wait ran out of time and was taken back: the connection is still in step.
  struct WaitCancelled {};

  // What error messages say about an operation.
  struct Call {
    const char* operation;
    std::span<const std::string> keys;
    Timeout timeout;
  };

  void connect(Deadline deadline) {
    socket_ = Socket::connect(endpoint_, deadline);
    in_begin_ = in_end_ = 0;
    try {
      greet(deadline);
    } catch (const NetworkError& error) {
      throw NetworkError(std::string(error.what()) +
                         " at the greeting; a store of PyTorch 1.x speaks another protocol (its "
                         "torchrun works with --standalone)");
    }
  }

  void greet(Deadline deadline) {
    // PyTorch's libuv server wants these five bytes in one piece.
    request(wire::Opcode::kValidate).integer(wire::kMagic);
    send(deadline);
    const auto nonce = static_cast<std::uint32_t>(::getpid());
    request(wire::Opcode::kPing).integer(nonce);
    send(deadline);
    if (receive<std::uint32_t>(deadline) != nonce) throw NetworkError("wrong answer to PING");
  }

  // Gives every failure its origin, and closes the connection if it may be out of step.
  template <class F>
  std::invoke_result_t<F> explained(const Call& call, F&& exchange) {
    try {
      return exchange();
    } catch (const WaitCancelled&) {
      throw timed_out(call);
    } catch (const TimeoutError&) {
      socket_.close();
      was_late_ = true;
      throw timed_out(call);
    } catch (const Error& error) {
      socket_.close();
      was_late_ = false;
      throw NetworkError(origin(call) + ": " + error.what() + " (" + to_string(endpoint_) + ")");
    } catch (...) {  // out of memory in the midst of a reply
      socket_.close();
      was_late_ = false;
      throw;
    }
  }

  [[nodiscard]] TimeoutError timed_out(const Call& call, const char* where = "") const {
    return TimeoutError(origin(call) + ": timed out after " + std::to_string(call.timeout.count()) +
                        " ms" + where + " (" + to_string(endpoint_) + ")");
  }

  [[nodiscard]] std::string origin(const Call& call) const {
    const std::string text =
        "[tcp_store] " + std::string(call.operation) + "(" + quoted_list(call.keys) + ")";
    return options_.rank < 0 ? text : text + " on rank " + std::to_string(options_.rank);
  }

  // Waits until in_ holds something; false if nothing came in time.
  bool fill(Deadline deadline) {
    if (in_begin_ < in_end_) return true;
    return spin_.until([this] { return took(socket_.receive_some(in_)); }) ||
           took(socket_.receive_until(in_, deadline));
  }

  bool took(std::optional<std::size_t> received) {
    in_begin_ = 0;
    in_end_ = received.value_or(0);
    return received.has_value();
  }

  void receive_into(std::span<std::byte> target, Deadline deadline) {
    while (!target.empty()) {
      if (!fill(deadline)) throw TimeoutError("");
      const std::size_t count = std::min(target.size(), in_end_ - in_begin_);
      std::copy_n(in_.begin() + static_cast<std::ptrdiff_t>(in_begin_), count, target.begin());
      in_begin_ += count;
      target = target.subspan(count);
    }
  }

  Endpoint endpoint_;
  TcpStoreOptions options_;
  TimedMutex mutex_;
  Socket socket_;
  bool was_late_ = false;  // why the socket is closed
  Spin spin_;
  std::string out_;
  std::array<std::byte, 4096> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
};

TcpStore::TcpStore(const Endpoint& endpoint, const TcpStoreOptions& options)
    : impl_(std::make_unique<Impl>(endpoint, options)) {}

TcpStore::TcpStore(const Endpoint& endpoint, Timeout timeout, int rank)
    : TcpStore(endpoint, TcpStoreOptions{.timeout = timeout, .rank = rank}) {}

TcpStore::~TcpStore() = default;

Timeout TcpStore::timeout() const { return impl_->options().timeout; }

std::string TcpStore::local_address() const { return impl_->local_address(); }

std::shared_ptr<Store> TcpStore::clone(Timeout timeout) const {
  TcpStoreOptions options = impl_->options();
  options.timeout = timeout;
  return std::make_shared<TcpStore>(impl_->endpoint(), options);
}

void TcpStore::set(std::string_view key, std::string_view value) {
  check_sendable(value);
  const std::string keys[] = {std::string(key)};
  impl_->call("set", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kSet).user_key(key).bytes(value);
    impl_->send(deadline);
  });
}

std::string TcpStore::get(std::string_view key, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  return impl_->call("get", keys, timeout, [&](Deadline deadline) {
    return std::move(impl_->wait_then_get(wire::Opcode::kGet, keys, deadline)[0]);
  });
}

std::vector<std::string> TcpStore::multi_get(std::span<const std::string> keys, Timeout timeout) {
  return impl_->call("multi_get", keys, timeout, [&](Deadline deadline) {
    return impl_->wait_then_get(wire::Opcode::kMultiGet, keys, deadline);
  });
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t delta) {
  const std::string keys[] = {std::string(key)};
  return impl_->call("add", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kAdd).user_key(key).integer(delta);
    impl_->send(deadline);
    return impl_->receive<std::int64_t>(deadline);
  });
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) {
  check_sendable(desired);
  const std::string keys[] = {std::string(key)};
  return impl_->call("compare_set", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kCompareSet).user_key(key).bytes(expected).bytes(desired);
    impl_->send(deadline);
    return impl_->receive_bytes(deadline);
  });
}

void TcpStore::wait(std::span<const std::string> keys, Timeout timeout) {
  impl_->call("wait", keys, timeout, [&](Deadline deadline) {
    impl_->request(wire::Opcode::kWait, keys);
    impl_->wait_for_stop(deadline);
  });
}

bool TcpStore::check(std::span<const std::string> keys) {
  return impl_->call("check", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kCheck, keys);
    impl_->send(deadline);
    return impl_->receive<std::uint8_t>(deadline) == wire::kReady;
  });
}

bool TcpStore::delete_key(std::string_view key) {
  const std::string keys[] = {std::string(key)};
  return impl_->call("delete_key", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kDeleteKey).user_key(key);
    impl_->send(deadline);
    return impl_->receive<std::int64_t>(deadline) == 1;
  });
}

void TcpStore::append(std::string_view key, std::string_view value) {
  check_sendable(value);
  const std::string keys[] = {std::string(key)};
  impl_->call("append", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kAppend).user_key(key).bytes(value);
    impl_->send(deadline);
  });
}

void TcpStore::multi_set(std::span<const std::pair<std::string, std::string>> entries) {
  for (const auto& entry : entries) check_sendable(entry.second);
  impl_->call("multi_set", {}, timeout(), [&](Deadline deadline) {
    wire::Writer writer = impl_->request(wire::Opcode::kMultiSet);
    writer.integer(static_cast<std::uint64_t>(entries.size()));
    for (const auto& [key, value] : entries) writer.user_key(key).bytes(value);
    impl_->send(deadline);
  });
}

std::int64_t TcpStore::num_keys() {
  return impl_->call("num_keys", {}, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kGetNumKeys);
    impl_->send(deadline);
    return impl_->receive<std::int64_t>(deadline);
  });
}

std::vector<std::string> TcpStore::list_keys() {
  return impl_->call("list_keys", {}, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kListKeys);
    impl_->send(deadline);
    std::vector<std::string> keys;
    for (auto left = impl_->receive<std::int64_t>(deadline); left > 0; --left) {
      const std::string key = impl_->receive_bytes(deadline);
      if (key.starts_with('/')) keys.push_back(key.substr(1));  // others are no user's
    }
    return keys;
  });
}

void TcpStore::queue_push(std::string_view key, std::string_view value) {
  check_sendable(value);
  const std::string keys[] = {std::string(key)};
  impl_->call("queue_push", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kQueuePush).user_key(key).bytes(value);
    impl_->send(deadline);
  });
}

std::optional<std::string> TcpStore::queue_pop(std::string_view key, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  const bool wait = timeout > Timeout(0);
  // Another client may take the element between our wait and our pop: then wait again.
  const auto pop = [&](Deadline deadline) -> std::optional<std::string> {
    do {
      if (wait) {
        impl_->request(wire::Opcode::kWait, keys);
        impl_->wait_for_stop(deadline);
      }
      const Deadline reply = impl_->for_reply(deadline);
      impl_->request(wire::Opcode::kQueuePop).user_key(key);
      impl_->send(reply);
      if (impl_->receive<std::int64_t>(reply) > 0) return impl_->receive_bytes(reply);
    } while (wait);
    return std::nullopt;
  };
  return impl_->call("queue_pop", keys, wait ? timeout : this->timeout(), pop);
}

std::int64_t TcpStore::queue_length(std::string_view key) {
  const std::string keys[] = {std::string(key)};
  return impl_->call("queue_length", keys, timeout(), [&](Deadline deadline) {
    impl_->request(wire::Opcode::kQueueLen).user_key(key);
    impl_->send(deadline);
    return impl_->receive<std::int64_t>(deadline);
  });
}

void TcpStore::barrier(std::string_view key, int world_size, Timeout timeout) {
  const std::string keys[] = {std::string(key)};
  impl_->call("barrier", keys, timeout, [&](Deadline deadline) {
    impl_->request(wire::Opcode::kBarrier).user_key(key).integer(std::int64_t{world_size});
    impl_->wait_for_stop(deadline);
  });
}

}  // namespace ddp
