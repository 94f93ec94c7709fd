// SPDX-License-Identifier: MIT
#include "launcher/nodes/farewell.h"

#include <fmt/core.h>

#include <exception>
#include <memory>

#include "launcher/nodes/launcher_store.h"
#include "launcher/nodes/node_keys.h"

namespace ddp::launcher {
namespace {

// Calls say(store), unless nobody is there or another job's store.
template <class Say>
void tell(const NodePlan& plan, const Say& say) noexcept {
  try {
    const std::shared_ptr<Store> store = open_launcher_store(plan.store_addresses());
    if (!agreed_run_id(*store, plan).empty()) say(*store);
  } catch (const std::exception&) {
    // Nobody hears it.
  }
}

}  // namespace

void tell_refusal(const NodePlan& plan, const std::string& host,
                  const LaunchError& reason) noexcept {
  tell(plan, [&](Store& store) { write_refusal(store, host, reason); });
}

void tell_loss(const NodePlan& plan, const std::string& host, pid_t agent,
               const std::string& sentence) noexcept {
  tell(plan, [&](Store& store) {
    const std::string entry = fmt::format("{}\n{}\n", host, agent);  // its beginning
    const bool had_met = store.find(kMetKey).value_or("").find(entry) != std::string::npos;
    if (had_met) (void)store.compare_set(kLostKey, "", sentence);
  });
}

}  // namespace ddp::launcher
