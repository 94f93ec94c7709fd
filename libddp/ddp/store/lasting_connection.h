// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <type_traits>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/time.h"
#include "ddp/store/store_connection.h"
#include "ddp/store/wire.h"

namespace ddp {

// Whether a request may be sent once more if its connection broke before the answer came.
enum class Repeat { kNo, kYes };

// A connection to one store, made anew when it has broken: by a firewall that forgets an idle flow
// or is set up anew, for example. Only the server that was connected to first will do, which shows
// by its id; PyTorch's servers have none, so a connection to one of them is made anew after a
// timeout only. Errors are StoreConnection's. Not thread-safe, but for the accessors.
class LastingConnection {
 public:
  struct Options {
    std::chrono::microseconds spin;  // time to poll for an answer
    Timeout check_after_idle;        // see TcpStoreOptions
  };

  // Connects within the deadline.
  LastingConnection(const Endpoint& endpoint, const Options& options, Deadline deadline);

  // Returns what exchange(StoreConnection&) returns, which sends a request and receives the answer.
  // Afterwards the connection is either in step with the server, or closed until the next run().
  // After a server that was connected to again turned out to be another one, or none for
  // kReconnectFor, every run() throws NetworkError.
  template <class F>
  std::invoke_result_t<F, StoreConnection&> run(Repeat repeat, Deadline deadline, F&& exchange) {
    return closed_after_errors([&] {
      const bool is_new = !connection_.is_open();
      if (is_new) reopen(deadline);
      if (repeat == Repeat::kNo && !is_new) replace_if_broken(deadline);
      last_use_ = Clock::now();
      if (repeat == Repeat::kNo || is_new || !knows_server()) return exchange(connection_);
      return twice_if_broken(deadline, exchange);
    });
  }

  // Of the first connection.
  [[nodiscard]] const Endpoint& server() const { return server_; }
  [[nodiscard]] const std::string& local_address() const { return local_address_; }

 private:
  // How long a lost server is looked for. A firewall that is set up anew may refuse or swallow
  // connections for a moment, and the end of this process must not wait much longer for a server
  // that is gone.
  static constexpr Timeout kReconnectFor{500};

  // Whether another server in its place could be told from it.
  [[nodiscard]] bool knows_server() const { return server_id_ != wire::kNoServerId; }
  void replace_if_broken(Deadline deadline);
  void reopen(Deadline deadline, const std::string& why = "the connection is closed");
  [[nodiscard]] bool try_to_open(Deadline deadline);
  void close();

  template <class F>
  std::invoke_result_t<F&, StoreConnection&> twice_if_broken(Deadline deadline, F& exchange) {
    try {
      return exchange(connection_);
    } catch (const NetworkError& error) {
      close();
      reopen(deadline, error.what());
    }
    return exchange(connection_);
  }

  template <class F>
  std::invoke_result_t<F> closed_after_errors(F&& exchange) {
    try {
      return exchange();
    } catch (const StoreConnection::WaitCancelled&) {
      throw;
    } catch (const TimeoutError&) {
      is_late_ = is_late_ || connection_.is_open();
      connection_.close();
      throw;
    } catch (const Error&) {
      close();
      is_lost_ = is_lost_ || !knows_server();
      throw;
    } catch (...) {  // such as bad_alloc in the midst of a reply
      close();
      throw;
    }
  }

  StoreConnection connection_;
  Timeout check_after_idle_;
  // Of the first connection.
  std::string local_address_;
  Endpoint server_;  // needs no name server any more
  std::string server_id_;
  Clock::time_point last_use_ = Clock::now();
  bool is_late_ = false;  // that is why the connection was closed last
  // Time for tries to connect again: grows back when one succeeds.
  Timeout reconnect_left_ = kReconnectFor;
  bool is_lost_ = false;
};

}  // namespace ddp
