// SPDX-License-Identifier: MIT
//
// The inner groups (inside a host and between hosts) run parts of an operation, so their errors
// never reach the caller. The first rank that sees one of them fail finds the cause in terms of
// this group's operation, publishes it in the store, and aborts its inner groups, which wakes the
// ranks connected with it; these read the cause from the store.
#include "ddp/collectives/hierarchical/hierarchical_process_group.h"

#include <atomic>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/threads/becomes_true.h"
#include "ddp/base/threads/periodic_thread.h"
#include "ddp/collectives/check/call_exchange.h"
#include "ddp/collectives/failure/failure_sentences.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hierarchical/hierarchical_algorithms.h"
#include "ddp/collectives/hierarchical/host_groups.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/peers/host_layout.h"
#include "ddp/collectives/queue/operation_queue.h"
#include "ddp/collectives/queue/queued_process_group.h"
#include "ddp/collectives/shm/shm_process_group.h"
#include "ddp/collectives/tcp/tcp_process_group.h"

namespace ddp {
namespace {

// Selects the group's ranks from the hosts of the job's ranks.
HostLayout layout_of(const GroupConfig& config, const std::vector<int>& hosts) {
  std::vector<int> own;
  for (int rank = 0; rank < config.world_size; ++rank) {
    own.push_back(hosts.at(static_cast<std::size_t>(config.job_rank(rank))));
  }
  return HostLayout(own);
}

class HierarchicalProcessGroup final : public QueuedProcessGroup {
 public:
  HierarchicalProcessGroup(GroupConfig group_config, HostLayout layout, std::vector<int> hosts,
                           std::string address)
      : QueuedProcessGroup(std::move(group_config)),
        hosts_(std::move(hosts)),
        address_(std::move(address)),
        origin_("[shm+tcp] " + names().self()),
        layout_(std::move(layout)),
        calls_(config()),
        roll_(config()),
        groups_(make_host_groups(config(), layout_, address_)),
        algorithms_(layout_, rank(), groups_),
        queue_(
            "ddp-hosts", origin_, shared_recorder(),
            [this](std::span<const Collective> batch) {
              execute(batch);
              return std::nullopt;
            },
            shared_report()),
        first_error_(config().background_store, config().job_rank(rank()),
                     [this](const std::exception_ptr& error) {
                       queue_.fail(error);
                       groups_.abort(describe(error));
                     }),
        watch_("ddp-watch", FirstError::kPeriod, [this] {
          groups_.spread_failure();
          recorder().hang().set_awaited(groups_.awaited());
          return !first_error_.poll();
        }) {}

  ~HierarchicalProcessGroup() override {
    queue_.stop([this] {
      roll_.leave(recorder().position().collectives);
      is_leaving_.store(true);
      if (!queue_.wait_idle(Timeout(0))) groups_.abort("a rank left the group");
    });
  }

  std::string_view backend() const override { return "shm+tcp"; }
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) override {
    roll_.check_on(awaited, has_come, first_error_, "[shm+tcp]");
  }
  bool wait_released(const Buffer& memory, Timeout timeout) override {
    return QueuedProcessGroup::wait_released(memory, timeout) &&
           groups_.wait_released(memory, timeout);
  }

 protected:
  OperationQueue& queue() override { return queue_; }
  // Shared memory where there is any, which waits for the group inside the host before it goes.
  Allocation do_allocate(std::size_t size_bytes) override {
    return guard(groups_.inside->allocate(size_bytes));
  }
  void do_abort(std::string_view reason) override {
    first_error_.set(PeerError(origin_ + " aborted: " + std::string(reason)));
  }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_hierarchical_process_group(std::move(child), hosts_, address_);
  }

 private:
  void execute(std::span<const Collective> batch) {
    try {
      return algorithms_.run(batch);
    } catch (const Error& error) {
      if (is_leaving_.load()) throw PeerError(origin_ + ": the process group was destroyed");
      if (!first_error_.poll()) explain(error);
    } catch (const std::exception& error) {  // failed on this rank only, such as bad_alloc
      first_error_.set(std::current_exception(),
                       {.sentence = origin_ + " failed: " + error.what()});
    }
    // Then operands may be freed.
    static_cast<void>(groups_.wait_idle(OperationQueue::kErrorGrace));
    first_error_.rethrow_if_set();
  }

  // Sets the error in terms of this group's operation, unless another rank was first. The inner
  // groups know which sends and recvs differ; of collectives they have other ones.
  void explain(const Error& error) {
    if (const auto* transfers = dynamic_cast<const TransferMismatchError*>(&error)) {
      first_error_.set(MismatchError("[shm+tcp] " + transfers->sentence()));
    } else if (dynamic_cast<const MismatchError*>(&error) != nullptr) {
      first_error_.set(MismatchError("[shm+tcp] " + calls_.mismatch(algorithms_.current())));
    } else if (dynamic_cast<const TimeoutError*>(&error) != nullptr) {
      if (!algorithms_.has_timed_out() && await_report_of_others()) return;
      first_error_.set(TimeoutError(
          timeout_sentence(origin_, algorithms_.timeout(), recorder(), activity().operation)));
    } else {
      first_error_.set(PeerError(loss_text()));
    }
  }

  // The inner groups break on all ranks at once, but the rank that timed out may still be about to
  // tell the store.
  [[nodiscard]] bool await_report_of_others() {
    constexpr Timeout kPatience{1000};
    constexpr Timeout kPause{5};
    return becomes_true([this] { return first_error_.poll(); }, kPatience, kPause);
  }

  [[nodiscard]] Activity activity() {
    return activity_in(algorithms_.current(), recorder(), names());
  }

  // Only ranks of the same host can see whether a rank is alive; they will report it.
  [[nodiscard]] std::string loss_text() {
    const auto missing =
        roll_.missing([this] { return first_error_.poll(); }, algorithms_.lost_peer());
    if (missing) return loss_sentence("[shm+tcp]", *missing, activity());
    const std::string leaders = roll_.names(other_leaders());  // none if the store is gone
    return "[shm+tcp] " + (leaders.empty() ? "a rank" : leaders) +
           " died or cannot be reached, while " + names().self() + " is in " + activity().operation;
  }

  [[nodiscard]] std::vector<int> other_leaders() const {
    std::vector<int> others = layout_.leaders();
    others.erase(others.begin() + layout_.place(rank()).host);
    return others;
  }

  std::vector<int> hosts_;  // by rank of the job
  std::string address_;
  std::string origin_;
  HostLayout layout_;
  CallExchange calls_;
  PeerRoll roll_;
  HostGroups groups_;
  HierarchicalAlgorithms algorithms_;
  std::atomic<bool> is_leaving_ = false;
  OperationQueue queue_;
  FirstError first_error_;
  PeriodicThread watch_;  // last: it uses all of the above
};

}  // namespace

std::shared_ptr<ProcessGroup> make_hierarchical_process_group(GroupConfig config,
                                                              std::vector<int> hosts,
                                                              std::string address) {
  HostLayout layout = layout_of(config, hosts);
  if (layout.host_count() == 1) return make_shm_process_group(std::move(config));
  if (layout.width() == 1) return make_tcp_process_group(std::move(config), std::move(address));
  return make_group_object<HierarchicalProcessGroup>(std::move(config), std::move(layout),
                                                     std::move(hosts), std::move(address));
}

}  // namespace ddp
