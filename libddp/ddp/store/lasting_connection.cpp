// SPDX-License-Identifier: MIT
#include "ddp/store/lasting_connection.h"

#include <algorithm>
#include <thread>

namespace ddp {
namespace {

constexpr Timeout kOnOwnHost{20};  // where the answer or the refusal comes at once
constexpr Timeout kBetweenTries{10};

}  // namespace

LastingConnection::LastingConnection(const Endpoint& endpoint, const Options& options,
                                     Deadline deadline)
    : connection_(options.spin), check_after_idle_(options.check_after_idle) {
  connection_.open(endpoint, deadline, deadline);
  local_address_ = connection_.local_address();
  server_ = connection_.server();
  server_id_ = connection_.server_id();
}

// For a request that must not be sent twice: a connection that has broken is made anew before it.
// Whoever forgets an idle connection tells so only in answer to the next bytes.
void LastingConnection::replace_if_broken(Deadline deadline) {
  if (!knows_server()) return;
  try {
    if (Clock::now() - last_use_ >= check_after_idle_) connection_.ping(deadline);
    if (!connection_.has_broken()) return;
  } catch (const NetworkError&) {
  }
  close();
  reopen(deadline);
}

// A server that was only late, for example because it is stopped, may be late once more. Otherwise
// there is kReconnectFor, and on the server's host, where no firewall is in between, one attempt;
// then it is lost. `why` is what broke the connection.
void LastingConnection::reopen(Deadline deadline, const std::string& why) {
  while (!is_lost_) {
    if (try_to_open(deadline)) return;
    if (is_lost_) break;
    if (deadline.passed()) throw TimeoutError("");
    std::this_thread::sleep_for(kBetweenTries);
  }
  throw NetworkError(why);
}

bool LastingConnection::try_to_open(Deadline deadline) {
  const Clock::time_point begin = Clock::now();
  const Timeout left = std::min(reconnect_left_, deadline.remaining());
  const bool is_prompt = server_.host == local_address_ && !is_late_;
  const Deadline to_connect = Deadline::after(is_prompt ? std::min(left, kOnOwnHost) : left);
  bool is_refused = false;
  try {
    connection_.open(server_, to_connect, is_late_ ? deadline : Deadline::after(left));
    is_lost_ = connection_.server_id() != server_id_;
    reconnect_left_ = kReconnectFor;
    return !is_lost_;
  } catch (const NoAnswerError&) {  // nobody takes the connection
  } catch (const TimeoutError&) {   // nor answers over it
  } catch (const NetworkError&) {
    is_refused = true;
  }
  connection_.close();
  if (is_refused || !is_late_) reconnect_left_ -= std::chrono::ceil<Timeout>(Clock::now() - begin);
  is_lost_ = reconnect_left_ <= Timeout(0) || (is_prompt && is_refused);
  return false;
}

void LastingConnection::close() {
  connection_.close();
  is_late_ = false;
}

}  // namespace ddp
