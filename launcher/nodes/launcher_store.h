// SPDX-License-Identifier: MIT
//
// The launchers' part of the store, and what it has while the nodes meet about the job as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/node_plan.h"

namespace ddp::launcher {

inline constexpr Timeout kAnswerTimeout{1000};

// Tries the addresses in turn; they share the time. Throws NetworkError with all reasons if nobody
// answers. `timeout` is also that of the store's operations.
[[nodiscard]] std::shared_ptr<Store> open_launcher_store(std::span<const Endpoint> addresses,
                                                         Timeout timeout = kAnswerTimeout);

// Node 0 writes down what holds for all nodes.
void announce(Store& store, const NodePlan& plan);
// Node 0's run id, which all nodes use; empty until it is there. Throws LaunchError if this node's
// is another.
[[nodiscard]] std::string agreed_run_id(Store& store, const NodePlan& plan);
// Throws LaunchError if node 0's terms are not this node's.
void check_terms(Store& store, const NodePlan& plan);
[[nodiscard]] std::uint16_t agreed_worker_port(Store& store);

// "HOST: REASON" of the last node that did not fit, for those that wait; empty: none.
[[nodiscard]] std::string last_refusal(Store& store);
void write_refusal(Store& store, const std::string& host, const LaunchError& reason);
void withdraw_refusal(Store& store, const std::string& host);

// True if the job is ending: launchers have left it.
[[nodiscard]] bool is_over(Store& store);
// True if a job that is ending is served there.
[[nodiscard]] bool serves_ending_job(std::span<const Endpoint> addresses) noexcept;

}  // namespace ddp::launcher
