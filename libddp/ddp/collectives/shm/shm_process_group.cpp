// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_process_group.h"

#include <optional>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/queue/operation_queue.h"
#include "ddp/collectives/queue/queued_process_group.h"
#include "ddp/collectives/shm/shm_board.h"
#include "ddp/collectives/shm/shm_heap.h"
#include "ddp/collectives/shm/shm_in_place.h"
#include "ddp/collectives/shm/shm_member.h"
#include "ddp/collectives/shm/shm_small.h"
#include "ddp/collectives/shm/shm_staged.h"
#include "ddp/collectives/shm/shm_transfer.h"

namespace ddp {
namespace {

// Operations run inside the shared memory, on the queue's thread or on a thread that waits for
// them.
class ShmProcessGroup final : public QueuedProcessGroup {
 public:
  explicit ShmProcessGroup(GroupConfig group_config)
      : QueuedProcessGroup(std::move(group_config)),
        self_(config(), shared_recorder()),
        board_(self_),
        heap_(self_.segment(), rank()),
        small_(self_),
        in_place_(self_, board_, heap_),
        transfers_(self_),
        terms_(static_cast<std::size_t>(world_size())),
        queue_(
            "ddp-shm", "[shm] " + self_.names().rank(rank()), shared_recorder(),
            [this](std::span<const Collective> batch) { return execute(batch); },
            {.post = [this](const Collective& operation) { return post(operation); },
             .finish = [this](const Collective& operation) { return finish_small(operation); },
             .cpus_per_rank = self_.cpus_per_rank()},
            shared_report()) {}

  ~ShmProcessGroup() override {
    queue_.stop([this] { self_.leave(); });
    in_place_.leave();
  }

  std::string_view backend() const override { return "shm"; }
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) override {
    try {
      self_.check_on(awaited, has_come);
    } catch (const Error&) {
      if (self_.is_broken()) queue_.fail(std::current_exception());
      throw;
    }
  }

 protected:
  OperationQueue& queue() override { return queue_; }
  std::optional<Doing> doing() const override {
    return Doing{self_.call(), self_.timeout(), self_.peer_of_call()};
  }
  Allocation do_allocate(std::size_t size_bytes) override {
    const bool is_small = size_bytes <= shm::small_bytes(CollectiveKind::kAllReduce, world_size());
    return guard(is_small ? allocate_host(size_bytes) : heap_.allocate(size_bytes));
  }
  void do_abort(std::string_view reason) override {
    const std::string text =
        "[shm] " + self_.names().rank(rank()) + " aborted: " + std::string(reason);
    queue_.fail(self_.fail({shm::Cause::kPeer, text}));
  }
  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_shm_process_group(std::move(child));
  }

 private:
  using Posting = OperationQueue::Posting;

  Posting post(const Collective& operation) {
    if (is_transfer(operation.kind) || !board_.can_post()) return Posting::kNotPosted;
    const CollectiveSignature signature = signature_of(operation, board_.posted() + 1);
    if (shm::is_small(operation, world_size())) {
      board_.post_small(signature, shm::elements_to_post(operation, rank()));
      return Posting::kLittle;
    }
    const bool may_be_in_place = shm::works_in_place(operation.kind);
    const shm::Region operand =
        may_be_in_place ? in_place_.offer(operation, signature.sequence) : shm::Region();
    board_.post(signature, operand);
    return operand.block != 0 ? Posting::kUseful : Posting::kNeeded;
  }

  bool finish_small(const Collective& operation) {
    if (!board_.try_begin(collectives_ + 1)) return false;
    small_.run(operation, ++collectives_);
    board_.end();
    return true;
  }

  // An error that only this rank has, such as a lack of memory, must also end the others' waits.
  // They see by themselves when this rank leaves.
  std::optional<Interval> execute(std::span<const Collective> batch) {
    try {
      return run(batch);
    } catch (const std::exception& error) {
      const std::string text = "[shm] " + self_.names().rank(rank()) + " failed: " + error.what();
      if (!self_.is_leaving()) (void)self_.fail({shm::Cause::kPeer, text});
      throw;
    }
  }

  std::optional<Interval> run(std::span<const Collective> batch) {
    transfers_.run(batch);
    std::optional<Interval> ran;
    for (const Collective& operation : batch) {
      if (!is_transfer(operation.kind)) ran = run_collective(operation);
    }
    return batch.size() == 1 ? ran : std::nullopt;
  }

  // Returns when the operation ran, if other ranks may have run it before this call.
  std::optional<Interval> run_collective(const Collective& operation) {
    self_.set_timeout(operation.context.timeout);
    if (board_.posted() < ++collectives_) {
      board_.wait_for_room(signature_of(operation, collectives_));
      post(operation);
    }
    board_.begin(collectives_);
    std::optional<Interval> ran;
    if (shm::is_small(operation, world_size())) {
      small_.run(operation, collectives_);
    } else if (shm::is_posted_in_place(self_, collectives_)) {
      ran = in_place_.run(operation, collectives_);
    } else {
      shm::run_staged(self_, operation, terms_);
    }
    board_.end();
    return ran;
  }

  shm::Member self_;
  shm::Board board_;
  shm::Heap heap_;
  shm::SmallRunner small_;
  shm::InPlaceRunner in_place_;
  shm::TransferRunner transfers_;
  std::vector<Buffer> terms_;  // scratch memory of run_staged
  std::uint64_t collectives_ = 0;
  OperationQueue queue_;  // last: its thread uses all of the above
};

}  // namespace

std::shared_ptr<QueuedProcessGroup> make_shm_process_group(GroupConfig config) {
  return make_group_object<ShmProcessGroup>(std::move(config));
}

}  // namespace ddp
