// SPDX-License-Identifier: MIT
//
// The groups inside and between the hosts have ranks of their own, so what they say never reaches
// the caller: the first rank that sees one of them fail finds out what has happened in terms of
// this group's ranks, publishes it in the store, and aborts its inner groups, which wakes the ranks
// that it is connected with; they find the sentence in the store.
#include "ddp/collectives/hierarchical_process_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/collectives/abort_monitor.h"
#include "ddp/collectives/gloo_process_group.h"
#include "ddp/collectives/group_failure.h"
#include "ddp/collectives/hierarchical_algorithms.h"
#include "ddp/collectives/host_layout.h"
#include "ddp/collectives/operation_queue.h"
#include "ddp/collectives/peer_roll.h"
#include "ddp/collectives/queued_process_group.h"
#include "ddp/collectives/shm_process_group.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

// For ranks that called different things to tell each other.
constexpr Timeout kMismatchPatience{1000};
constexpr Timeout kPause{5};

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int> job_ranks_of(const GroupConfig& config) {
  return config.job_ranks.empty() ? first_ranks(config.world_size) : config.job_ranks;
}

// Of the group's ranks, from those of the job's.
HostLayout layout_of(const GroupConfig& config, const std::vector<int>& hosts) {
  std::vector<int> own;
  for (const int rank : job_ranks_of(config))
    own.push_back(hosts.at(static_cast<std::size_t>(rank)));
  return HostLayout(own);
}

// For a group of some of our ranks that serves this one alone: nobody else watches or records it.
GroupConfig inner_config(const GroupConfig& config, const std::string& name,
                         const std::vector<int>& ranks) {
  const auto self = std::find(ranks.begin(), ranks.end(), config.rank);
  const std::vector<int> job_ranks = job_ranks_of(config);
  GroupConfig inner{.store = std::make_shared<PrefixStore>(name, config.store),
                    .rank = static_cast<int>(self - ranks.begin()),
                    .world_size = static_cast<int>(ranks.size()),
                    .device = config.device,
                    .timeout = config.timeout,
                    .start_timeout = config.start_timeout,
                    .name = config.name + "/" + name};
  for (const int rank : ranks) inner.job_ranks.push_back(job_ranks[static_cast<std::size_t>(rank)]);
  return inner;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string list;
  for (const int rank : ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  return list;
}

std::shared_ptr<ProcessGroup> make_inside(const GroupConfig& config, int host,
                                          const std::vector<int>& fellows) {
  if (fellows.size() == 1) return nullptr;
  try {
    return make_shm_process_group(inner_config(config, "host" + std::to_string(host), fellows));
  } catch (const Error&) {
    std::throw_with_nested(EnvironmentError("[shm+gloo] ranks " + list_of(fellows) +
                                            ", which count from 0 on their host, cannot share "
                                            "memory; use --backend gloo, or"));
  }
}

// That of all ranks comes first: what is wrong between hosts is told with its ranks, which are
// ours.
HostGroups make_groups(const GroupConfig& config, const HostLayout& layout,
                       const std::string& address) {
  const HostLayout::Place self = layout.place(config.rank);
  HostGroups groups;
  groups.flat = make_gloo_process_group(
      inner_config(config, "flat", first_ranks(config.world_size)), address);
  if (self.local_rank == 0) {
    groups.leaders =
        make_gloo_process_group(inner_config(config, "leaders", layout.leaders()), address);
  }
  groups.inside =
      make_inside(config, self.host, layout.members[static_cast<std::size_t>(self.host)]);
  return groups;
}

// All that the queue's thread touches: it may have to outlive the group.
class Engine {
 public:
  Engine(const GroupConfig& config, HostLayout layout, const std::string& address,
         std::shared_ptr<FlightRecorder> recorder)
      : rank_(config.rank),
        origin_("[shm+gloo] rank " + std::to_string(config.rank)),
        layout_(std::move(layout)),
        recorder_(std::move(recorder)),
        calls_(std::make_shared<PrefixStore>("call", config.store->clone(kBackgroundStoreTimeout))),
        roll_(config),
        groups_(make_groups(config, layout_, address)),
        algorithms_(layout_, config.rank, groups_),
        queue_("ddp-hosts", origin_, recorder_,
               [this](std::span<const Collective> batch) { execute(batch); }),
        monitor_(*config.store,
                 [this](const std::string& note) { break_with(GroupFailure::from_note(note)); }) {}

  [[nodiscard]] OperationQueue& queue() { return queue_; }
  [[nodiscard]] const HostGroups& groups() const { return groups_; }

  void abort(const std::string& reason) {
    const GroupFailure failure{.sentence = origin_ + " aborted: " + reason};
    break_with(GroupFailure::from_note(monitor_.post(failure.note())));
  }

  // Nothing runs any more, neither here nor on the threads of the groups between hosts.
  [[nodiscard]] bool wait_idle(Timeout timeout) {
    return queue_.wait_idle(timeout) && are_groups_idle(timeout);
  }

  // This rank leaves the group; false if something goes on that uses this.
  [[nodiscard]] bool stop(Timeout grace) {
    roll_.leave();
    const bool is_idle = queue_.wait_idle(grace);
    is_leaving_.store(true);
    const bool is_stopped = queue_.stop(
        [&] {
          if (!is_idle) abort_groups("a rank left");
        },
        grace);
    return is_stopped && wait_idle(grace);
  }

 private:
  void execute(std::span<const Collective> batch) {
    try {
      algorithms_.run(batch);
    } catch (const Error& error) {
      if (is_leaving_.load()) throw PeerError(origin_ + ": the process group was destroyed");
      const GroupFailure failure = find_cause(error);
      break_with(failure);
      static_cast<void>(
          are_groups_idle(OperationQueue::kErrorGrace));  // operands may be freed then
      std::rethrow_exception(failure.error());
    }
  }

  // Whoever is first decides the sentence.
  GroupFailure find_cause(const Error& error) {
    std::string note = monitor_.posted();
    if (note.empty()) note = monitor_.post(explain(error).note());
    return GroupFailure::from_note(note);
  }

  GroupFailure explain(const Error& error) {
    if (dynamic_cast<const MismatchError*>(&error) != nullptr) {
      return {GroupFailure::Kind::kMismatch, "[shm+gloo] " + mismatch_text()};
    }
    if (dynamic_cast<const TimeoutError*>(&error) != nullptr) {
      return {GroupFailure::Kind::kTimeout, timeout_text()};
    }
    return {GroupFailure::Kind::kPeer, loss_text()};
  }

  [[nodiscard]] std::string timeout_text() const {
    const std::string text =
        origin_ + ": timed out after " + std::to_string(algorithms_.timeout().count()) + " ms";
    const std::string diagnosis = recorder_->diagnosis();
    return diagnosis.empty() ? text + " in " + to_string(algorithms_.current())
                             : text + ": " + diagnosis;
  }

  // Whether a rank of another host is alive, only its host's ranks can see; they will tell.
  [[nodiscard]] std::string loss_text() const {
    const std::string missing = roll_.missing([this] { return !monitor_.posted().empty(); });
    const std::string during =
        ", while rank " + std::to_string(rank_) + " is in " + to_string(algorithms_.current());
    if (!missing.empty()) return "[shm+gloo] " + missing + during;
    const std::string names = roll_.names(other_leaders());  // none if the store is gone
    return "[shm+gloo] " + (names.empty() ? "a rank" : names) + " died or cannot be reached" +
           during;
  }

  [[nodiscard]] std::vector<int> other_leaders() const {
    std::vector<int> others = layout_.leaders();
    others.erase(others.begin() + layout_.place(rank_).host);
    return others;
  }

  // All ranks that see a mismatch tell what they have called.
  std::string mismatch_text() {
    const CollectiveSignature own = algorithms_.current();
    calls_->set(std::to_string(rank_), {reinterpret_cast<const char*>(&own), sizeof(own)});
    const Deadline deadline = Deadline::after(kMismatchPatience);
    do {
      for (int other = 0; other < layout_.world_size(); ++other) {
        const std::string key = std::to_string(other);
        if (!calls_->has(key)) continue;
        CollectiveSignature theirs;
        std::memcpy(&theirs, calls_->get(key).data(), sizeof(theirs));
        if (theirs == own) continue;
        return other < rank_ ? mismatch_message(other, theirs, rank_, own)
                             : mismatch_message(rank_, own, other, theirs);
      }
      std::this_thread::sleep_for(kPause);
    } while (!deadline.passed());
    return "ranks called different collectives: rank " + std::to_string(rank_) + " called " +
           to_string(own);
  }

  [[nodiscard]] bool are_groups_idle(Timeout timeout) const {
    return groups_.flat->wait_idle(timeout) &&
           (!groups_.leaders || groups_.leaders->wait_idle(timeout));
  }

  void break_with(const GroupFailure& failure) {
    queue_.fail(failure.error());
    abort_groups(failure.sentence);
  }

  void abort_groups(const std::string& reason) {
    if (groups_.inside) groups_.inside->abort(reason);
    if (groups_.leaders) groups_.leaders->abort(reason);
    groups_.flat->abort(reason);
  }

  int rank_;
  std::string origin_;
  HostLayout layout_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<Store> calls_;
  PeerRoll roll_;
  HostGroups groups_;
  HierarchicalAlgorithms algorithms_;
  std::atomic<bool> is_leaving_ = false;
  OperationQueue queue_;
  AbortMonitor monitor_;
};

class HierarchicalProcessGroup final : public QueuedProcessGroup {
 public:
  HierarchicalProcessGroup(GroupConfig group_config, HostLayout layout, std::vector<int> hosts,
                           std::string address)
      : QueuedProcessGroup(std::move(group_config)),
        hosts_(std::move(hosts)),
        address_(std::move(address)),
        engine_(
            std::make_unique<Engine>(config(), std::move(layout), address_, shared_recorder())) {}

  ~HierarchicalProcessGroup() override {
    if (engine_->stop(kStopGrace)) return;
    recorder().broken();                   // nobody waits for it any more
    static_cast<void>(engine_.release());  // a thread hangs in Gloo
  }

  std::string_view backend() const override { return "shm+gloo"; }

  Allocation allocate(std::size_t size_bytes) override;

 protected:
  OperationQueue& queue() override { return engine_->queue(); }
  void do_abort(std::string_view reason) override { engine_->abort(std::string(reason)); }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_hierarchical_process_group(std::move(child), hosts_, address_);
  }

 private:
  static constexpr Timeout kStopGrace{100};

  std::vector<int> hosts_;  // by rank of the job
  std::string address_;
  std::unique_ptr<Engine> engine_;
};

// Shared memory where there is any, which waits for the group inside the host before it goes.
Allocation HierarchicalProcessGroup::allocate(std::size_t size_bytes) {
  const std::shared_ptr<ProcessGroup>& inside = engine_->groups().inside;
  auto owner = std::make_shared<Allocation>(inside ? inside->allocate(size_bytes)
                                                   : allocate_host(size_bytes));
  void* data = owner->data();
  return {
      data, size_bytes, [owner, engine = engine_.get(), group = weak_from_this()](void*) {
        const std::shared_ptr<ProcessGroup> alive = group.lock();
        if (!alive || engine->wait_idle(OperationQueue::kErrorGrace)) return;
        alive->abort("memory was given back while it was in a collective");
        if (engine->wait_idle(OperationQueue::kErrorGrace)) return;
        log::warning("[shm+gloo] memory that a hanging collective may still touch is not freed");
        new std::shared_ptr<Allocation>(owner);  // leaked on purpose
      }};
}

}  // namespace

std::shared_ptr<ProcessGroup> make_hierarchical_process_group(GroupConfig config,
                                                              std::vector<int> hosts,
                                                              std::string address) {
  HostLayout layout = layout_of(config, hosts);
  if (layout.host_count() == 1) return make_shm_process_group(std::move(config));
  if (layout.width() == 1) return make_gloo_process_group(std::move(config), std::move(address));
  return std::make_shared<HierarchicalProcessGroup>(std::move(config), std::move(layout),
                                                    std::move(hosts), std::move(address));
}

}  // namespace ddp
