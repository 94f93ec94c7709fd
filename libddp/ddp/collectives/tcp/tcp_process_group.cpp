// SPDX-License-Identifier: MIT
//
// A rank that dies or leaves closes its connections, so whoever waits for it learns that at once;
// the store says which of the two it was. The first cause is published in the store, where a watch
// of every rank finds it and wakes the rank's wait.
#include "ddp/collectives/tcp/tcp_process_group.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/net/socket.h"
#include "ddp/base/threads/periodic_thread.h"
#include "ddp/collectives/failure/failure_sentences.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/group_failure.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/meeting/start_patience.h"
#include "ddp/collectives/queue/operation_queue.h"
#include "ddp/collectives/tcp/tcp_algorithms.h"
#include "ddp/collectives/tcp/tcp_mesh.h"
#include "ddp/collectives/tcp/tcp_wire.h"

namespace ddp {
namespace {

// The reasons of the ranks that call come first, since these know an address. All come before the
// group's own deadline, which knows no reason.
MeshDeadlines deadlines_within(Timeout timeout) {
  const Timeout margin = std::min<Timeout>(std::chrono::seconds(1), timeout / 10);
  return {Deadline::after(timeout - margin), Deadline::after(timeout - margin / 4)};
}

// Connects on a thread with its own store connection, so that this rank hears meanwhile of ranks
// that cannot come, and says whom it waits for.
std::vector<Socket> connect_to_peers(const GroupConfig& config, const std::string& address) {
  const GroupNames names(config);
  const std::string origin =
      "[tcp] " + names.self() + " (" + address + ") cannot connect to its peers";
  const auto links = std::make_shared<std::vector<Socket>>();
  const auto wait = std::make_shared<MeshWait>();
  const std::shared_ptr<Store> store = config.store->clone(config.start_timeout);
  const Deadline deadline = Deadline::after(config.start_timeout);
  const auto action = [=, own = MeshMember{config.rank, config.world_size, address},
                       limits = deadlines_within(config.start_timeout)] {
    try {
      *links = connect_mesh(*store, own, names, limits, *wait);
    } catch (const TimeoutError& error) {
      throw TimeoutError(origin + ": " + error.what());
    } catch (const Error& error) {
      throw NetworkError(origin + ": " + error.what());
    }
  };
  StartPatience patience(config.start_timeout);
  const auto look = [&] {
    const std::string text = wait->text();
    if (!patience.is_due() || text.empty()) return;
    patience.report(origin + " yet: " + text + " after " + patience.waited() +
                    "; the hosts must let each other's connections to all ports pass");
  };
  if (connect_all(config, deadline, action, look)) return std::move(*links);
  throw TimeoutError(origin + " in " + std::to_string(config.start_timeout.count()) + " ms");
}

class TcpProcessGroup final : public QueuedProcessGroup {
 public:
  TcpProcessGroup(GroupConfig group_config, std::string address)
      : QueuedProcessGroup(std::move(group_config)),
        address_(std::move(address)),
        origin_("[tcp] " + names().self()),
        wire_(connect_to_peers(config(), address_),
              [this](std::span<const int> peers) { tell_awaited(peers); }),
        algorithms_(wire_, rank(), world_size(), names()),
        roll_(config()),
        queue_(
            "ddp-tcp", origin_, shared_recorder(),
            [this](std::span<const Collective> batch) {
              execute(batch);
              return std::nullopt;
            },
            shared_report()),
        first_error_(config().background_store, config().job_rank(rank()),
                     [this](const std::exception_ptr& error) {
                       queue_.fail(error);
                       wire_.abort();
                     }),
        watch_("ddp-watch", FirstError::kPeriod, [this] { return !first_error_.poll(); }) {}

  ~TcpProcessGroup() override {
    queue_.stop([this] {
      roll_.leave(recorder().position().collectives);
      wire_.abort();
    });
  }

  std::string_view backend() const override { return "tcp"; }
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) override {
    roll_.check_on(awaited, has_come, first_error_, "[tcp]");
  }

 protected:
  OperationQueue& queue() override { return queue_; }
  std::optional<Doing> doing() const override {
    return Doing{algorithms_.current(), algorithms_.timeout(), lost_peer_};
  }
  Allocation do_allocate(std::size_t size_bytes) override {
    return guard(allocate_host(size_bytes));
  }
  void do_abort(std::string_view reason) override {
    first_error_.set(PeerError(origin_ + " aborted: " + std::string(reason)));
  }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_tcp_process_group(std::move(child), address_);
  }

 private:
  // Of sends and receives, two that wait for each other may be a mistake of the program.
  void tell_awaited(std::span<const int> peers) {
    std::vector<int> ranks;
    const bool is_collective = !is_transfer(algorithms_.current().kind);
    for (const int peer : peers) {
      if (is_collective) ranks.push_back(config().job_rank(peer));
    }
    recorder().hang().set_awaited(std::move(ranks));
  }

  void execute(std::span<const Collective> batch) {
    try {
      algorithms_.run(batch);
      return find_what_was_missed();
    } catch (const TcpWire::Lost& lost) {
      lost_peer_ = lost.peer();
      first_error_.set(PeerError(loss_text(lost)));
    } catch (const TimeoutError&) {
      first_error_.set(TimeoutError(
          timeout_sentence(origin_, algorithms_.timeout(), recorder(), activity().operation)));
    } catch (const TransferMismatchError& error) {
      first_error_.set(TransferMismatchError(origin_ + ": ", error.sentence()));
    } catch (const MismatchError& error) {
      first_error_.set(MismatchError(origin_ + ": " + error.what()));
    } catch (const std::exception& error) {
      if (wire_.is_aborted()) {
        first_error_.rethrow_if_set();
        throw PeerError(origin_ + ": the process group was destroyed");
      }
      // Failed on this rank only, such as bad_alloc.
      first_error_.set(std::current_exception(),
                       {.sentence = origin_ + " failed: " + error.what()});
    }
    first_error_.rethrow_if_set();
  }

  // What the others sent before they gave up on this rank lets it finish what has failed for them.
  void find_what_was_missed() {
    const Clock::time_point last_end = std::exchange(last_end_, Clock::now());
    if (last_end_ - last_end < algorithms_.timeout()) return;
    [[maybe_unused]] const bool is_broken = first_error_.poll();
    first_error_.rethrow_if_set();
  }

  [[nodiscard]] Activity activity() {
    return activity_in(algorithms_.current(), recorder(), names());
  }

  // The connection only tells that the peer is gone.
  [[nodiscard]] std::string loss_text(const TcpWire::Lost& lost) {
    const auto missing = roll_.missing([this] { return first_error_.poll(); }, lost.peer());
    if (missing) return loss_sentence("[tcp]", *missing, activity());
    const std::string peer = roll_.names({lost.peer()});  // empty if the store is gone
    return origin_ + " has lost the connection to " +
           (peer.empty() ? names().rank(lost.peer()) : peer) + " in " + activity().operation +
           ": " + lost.what();
  }

  std::string address_;
  std::string origin_;
  Clock::time_point last_end_ = Clock::now();  // of an operation, or of the last before this group
  TcpWire wire_;
  TcpAlgorithms algorithms_;
  std::optional<int> lost_peer_;  // by which an operation failed
  PeerRoll roll_;
  OperationQueue queue_;
  FirstError first_error_;
  PeriodicThread watch_;  // last: it uses all of the above
};

}  // namespace

std::shared_ptr<QueuedProcessGroup> make_tcp_process_group(GroupConfig config,
                                                           std::string address) {
  return make_group_object<TcpProcessGroup>(std::move(config), std::move(address));
}

}  // namespace ddp
