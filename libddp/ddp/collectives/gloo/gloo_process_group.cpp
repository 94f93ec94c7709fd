// SPDX-License-Identifier: MIT
//
// Debian's Gloo (2022) has pitfalls that this wrapper avoids. A size mismatch would end the process
// from Gloo's own thread, and different collectives of equal size would give wrong sums; so all
// ranks compare signatures before each call. A blocked call cannot be woken; so callers wait on our
// queue, never inside Gloo, and if the queue's thread still hangs in Gloo when the group is
// destroyed, it is abandoned with everything it uses.
#include "ddp/collectives/gloo/gloo_process_group.h"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ddp/base/background_thread.h"
#include "ddp/base/error.h"
#include "ddp/base/periodic_thread.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/loss_watch.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/gloo/gloo_algorithms.h"
#include "ddp/collectives/gloo/gloo_links.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/queue/operation_queue.h"
#include "ddp/collectives/start/group_start.h"

namespace ddp {
namespace {

// Extra time in which Gloo may report itself what is missing.
constexpr Timeout kConnectGrace{500};

// How long an operation may stay pending although its connection to a peer that has died is broken,
// so that Gloo can report this peer itself.
constexpr Timeout kDeathGrace{500};
// The same from when a broken connection to a peer of unknown fate was seen. The peer may have done
// its part, so that no rank waits for it. Or an operation has timed out, here or there, for which
// Gloo closes connections, and the error that says so is about to follow.
constexpr Timeout kLossGrace{1500};

// Gloo's ranks find each other through our store.
class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  RendezvousStore(std::shared_ptr<ddp::Store> store, Timeout timeout)
      : store_(std::move(store)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set("gloo/" + key, {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_->get("gloo/" + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const Timeout& timeout) override {
    std::vector<std::string> prefixed;
    for (const std::string& key : keys) prefixed.push_back("gloo/" + key);
    store_->wait(prefixed, std::min(timeout, timeout_));
  }

 private:
  std::shared_ptr<ddp::Store> store_;
  Timeout timeout_;
};

// Gloo gives up on an unreachable peer, but by its own rules and not always. So connecting runs on
// a thread with its own store connection, which is abandoned if it takes too long.
std::shared_ptr<gloo::Context> connect(const GroupConfig& config, const std::string& address) {
  const std::string origin = "[gloo] " + GroupNames(config).rank(config.rank) + " (" + address +
                             ") cannot connect to its peers";
  const auto context = std::make_shared<gloo::rendezvous::Context>(config.rank, config.world_size);
  const auto store = std::make_shared<RendezvousStore>(config.store->clone(config.start_timeout),
                                                       config.start_timeout);
  const Deadline deadline = Deadline::after(config.start_timeout + kConnectGrace);
  context->setTimeout(config.start_timeout);  // each operation sets its own
  const auto action = [=] {
    ask_for_short_turns();  // for Gloo's thread, too, which inherits it
    gloo::transport::tcp::attr attributes(address.c_str());
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context->connectFullMesh(*store, device);
  };
  try {
    if (connect_all(config, deadline, action)) return context;
  } catch (const PeerError&) {  // these two are the whole group's, not of this rank's connections
    throw;
  } catch (const MismatchError&) {
    throw;
  } catch (const gloo::Exception& error) {
    throw NetworkError(origin + ": " + error.what());
  } catch (const TimeoutError& error) {  // thrown by our store
    throw TimeoutError(origin + ": " + error.what());
  } catch (const Error& error) {
    throw NetworkError(origin + ": " + error.what());
  }
  throw TimeoutError(origin + " in " + std::to_string(config.start_timeout.count()) + " ms");
}

// Everything that the queue's thread uses, since it may have to outlive the group.
class GlooOperations {
 public:
  GlooOperations(const GroupConfig& config, const std::string& address,
                 std::shared_ptr<FlightRecorder> recorder)
      : rank_(config.rank),
        names_(config),
        origin_("[gloo] " + names_.rank(config.rank)),
        recorder_(std::move(recorder)),
        context_(connect(config, address)),
        algorithms_(context_, names_),
        links_(context_),
        roll_(config),
        queue_("ddp-gloo", origin_, recorder_,
               [this](std::span<const Collective> batch) { execute(batch); }),
        first_error_(config.background_store,
                     [this](const std::exception_ptr& error) { queue_.fail(error); }),
        loss_watch_(config,
                    {.backend = "gloo",
                     .find_lost = [this] { return find_lost(); },
                     .patience = kDeathGrace,
                     .for_dead = Timeout(0),
                     .for_leaver = kLossGrace,
                     .for_unknown = kLossGrace,
                     .awaits = [this](int peer) { return algorithms_.awaited_peer() == peer; }},
                    *recorder_, roll_, first_error_),
        watch_("ddp-watch", FirstError::kPeriod, [this] { return check_peers(); }) {}

  OperationQueue& queue() { return queue_; }
  // This rank leaves the group. False if a thread hangs in Gloo and still uses this object.
  [[nodiscard]] bool stop(Timeout grace) {
    return queue_.stop([this] { roll_.leave(recorder_->position().collectives); }, grace);
  }
  void abort(const std::string& reason) {
    first_error_.set(PeerError(origin_ + " aborted: " + reason));
  }
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) {
    roll_.check_on(awaited, has_come, first_error_, "[gloo]");
  }

 private:
  void execute(std::span<const Collective> batch) {
    try {
      return algorithms_.run(batch);
    } catch (const gloo::Exception& error) {
      if (algorithms_.has_timed_out()) {
        first_error_.set(TimeoutError(timeout_sentence(origin_, algorithms_.timeout(),
                                                       recorder_->hang().diagnosis(), during())));
      } else {
        first_error_.set(PeerError(loss_text(error)));
      }
    } catch (const MismatchError& error) {
      first_error_.set(MismatchError(origin_ + ": " + error.what()));
    } catch (const std::exception& error) {  // failed on this rank only, such as bad_alloc
      first_error_.set(std::current_exception(),
                       {.sentence = origin_ + " failed: " + error.what()});
    }
    first_error_.rethrow_if_set();
  }

  // Finds out whether the group is or must be broken; returns false once it is.
  bool check_peers() {
    if (!first_error_.poll()) loss_watch_.look();
    return !first_error_.is_set();
  }

  // The ranks whose connections to this one are broken.
  [[nodiscard]] std::vector<PeerRoll::Lost> find_lost() const {
    std::vector<PeerRoll::Lost> lost;
    for (int peer = 0; peer < context_->size; ++peer) {
      if (peer != rank_ && links_.is_broken(peer)) lost.push_back({peer, roll_.fate_of(peer)});
    }
    return lost;
  }

  [[nodiscard]] std::string during() const {
    return to_string(algorithms_.current()) + purpose_of_pending(*recorder_) + names_.of_group();
  }

  // Gloo itself only knows that a connection broke.
  [[nodiscard]] std::string loss_text(const gloo::Exception& error) {
    const std::string missing = roll_.missing([this] { return first_error_.poll(); });
    if (missing.empty()) return origin_ + ": lost a peer in " + during() + ": " + error.what();
    return "[gloo] " + missing + ", while " + names_.rank(rank_) + " is in " + during();
  }

  int rank_;
  GroupNames names_;
  std::string origin_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<gloo::Context> context_;
  GlooAlgorithms algorithms_;
  GlooLinks links_;
  PeerRoll roll_;
  OperationQueue queue_;
  FirstError first_error_;
  LossWatch loss_watch_;
  PeriodicThread watch_;  // last: it uses all of the above
};

class GlooProcessGroup final : public QueuedProcessGroup {
 public:
  GlooProcessGroup(GroupConfig group_config, std::string address)
      : QueuedProcessGroup(std::move(group_config)),
        address_(std::move(address)),
        operations_(std::make_unique<GlooOperations>(config(), address_, shared_recorder())) {}

  ~GlooProcessGroup() override {
    if (operations_->stop(kStopGrace)) return;
    recorder().broken();                       // nobody waits for it any more
    static_cast<void>(operations_.release());  // leaked, since its thread hangs in Gloo
  }

  std::string_view backend() const override { return "gloo"; }
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) override {
    operations_->check_on(awaited, has_come);
  }

  Allocation allocate(std::size_t size_bytes) override { return guard(allocate_host(size_bytes)); }

 protected:
  OperationQueue& queue() override { return operations_->queue(); }
  void do_abort(std::string_view reason) override { operations_->abort(std::string(reason)); }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_gloo_process_group(std::move(child), address_);
  }

 private:
  static constexpr Timeout kStopGrace{100};

  std::string address_;
  std::unique_ptr<GlooOperations> operations_;
};

}  // namespace

bool gloo_is_compiled_in() { return true; }

std::shared_ptr<QueuedProcessGroup> make_gloo_process_group(GroupConfig config,
                                                            std::string address) {
  return make_group_object<GlooProcessGroup>(std::move(config), std::move(address));
}

}  // namespace ddp
