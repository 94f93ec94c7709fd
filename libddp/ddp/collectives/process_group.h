// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"
#include "ddp/base/scoped_value.h"
#include "ddp/base/stream.h"
#include "ddp/base/time.h"
#include "ddp/store/store.h"

namespace ddp {

class BreakReport;
class FlightRecorder;
class GroupNames;
class ProcessGroup;
struct Collective;
struct GroupConfig;
struct GroupState;

inline constexpr Timeout kDefaultTimeout = std::chrono::minutes(10);
inline constexpr Timeout kDefaultStartTimeout = std::chrono::minutes(5);

// The handle of one asynchronous operation: a value, valid while its group lives. The buffers may
// be touched only after a wait. A caller who does not need the handle, since a later operation's
// wait covers this one too, casts it to void.
struct [[nodiscard]] Work {
  ProcessGroup* group = nullptr;
  std::uint64_t sequence = 0;

  // Orders `consumer` behind the operation: on CUDA with an event and without blocking the host, on
  // the CPU by blocking until it is done. Throws the error that stopped the operation, if any.
  void wait(Stream consumer = {}) const;
  // Blocks the host until the operation is done. With a timeout: throws TimeoutError after that
  // time; the operation then still runs, and its buffers must stay. Without one: waits until the
  // operation is done or the group's own timeout breaks the group. On nccl it then asks the store
  // whether the group is broken, which may have ended the operation: a round trip more, or, if the
  // store has just stopped answering, up to five seconds.
  void wait_host(Timeout timeout) const;
  void wait_host() const;
  // When the operation ran, on this host's clock. Nothing in a world of one; without
  // ProcessGroup::start_timing() a backend may know it or not.
  [[nodiscard]] std::optional<Interval> interval() const;
};

// Ranks that communicate. All of them call the same collectives in the same order; send and recv
// are matched in pairs. Operations run asynchronously, one after the other, each behind the work
// that `producer` holds at the call. Buffers must stay alive and untouched until the operation is
// done.
//
// A failure on one rank breaks the group on all of them. From then on every wait and every later
// call throws the first error, with the same text and class on every rank and backend:
//   TimeoutError   a rank has waited for the others for longer than its timeout (nccl: for the
//                  oldest unfinished operation, including the device's work before it)
//   MismatchError  ranks have called different collectives
//   PeerError      a rank died, left, called abort(), or failed by itself
// Only a rank that failed by itself, as with a CudaError, throws its own error instead. On nccl a
// group's failure breaks the group that it was made from, too: waits on CUDA do not throw, so the
// other's operations may have used what the failed ones have left in memory. It does not break
// other groups that were made from that one, nor does that one's failure.
//
// Operands that a call refuses do not break the group: it throws std::invalid_argument, and nothing
// was submitted, while the other ranks may wait for this one. Refused are operands without memory
// or on another device than device(), input and output that differ in type or do not fit each other
// in size, ranks that the group does not have, and the average of integers. A batch that is open
// throws them from the call, not from end().
//
// Destroying a group gives its operations a second to end; otherwise it does not wait for its
// peers. NCCL is the exception, since no wait there has blocked the host: unless the rank has
// failed, operations that a late peer has yet to call may end until their timeout. NCCL may also
// close its connections only when all ranks of the host do, and gets 10 s for that. After a fork,
// the child cannot use the group: calls and waits throw std::logic_error there, and destroying it
// does nothing.
//
// Thread safety: submit operations from one thread at a time; abort() and the waits are for any
// thread.
class ProcessGroup : public std::enable_shared_from_this<ProcessGroup> {
 public:
  virtual ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int world_size() const noexcept;
  // The rank in the job of one of this group's ranks. Throws std::invalid_argument if the group
  // does not have it.
  [[nodiscard]] int job_rank(int rank) const;
  [[nodiscard]] Device device() const noexcept;
  // The timeout of every wait for the other ranks, unless a ScopedTimeout replaces it.
  [[nodiscard]] Timeout timeout() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  // For notes of the program. Its keys are this group's: another group, also a duplicate or a part
  // of this one, does not see them.
  [[nodiscard]] Store& store() const;
  // "shm", "nccl", "tcp", "shm+tcp", or "self" in a world of one.
  [[nodiscard]] virtual std::string_view backend() const = 0;

  // In place: every rank ends with the reduction over all ranks.
  Work all_reduce(const Buffer& buffer, ReduceOp op = ReduceOp::kSum, Stream producer = {});
  // In place: every rank ends with the root's elements.
  Work broadcast(const Buffer& buffer, int root, Stream producer = {});
  // In place on the root; the others' buffers are only read.
  Work reduce(const Buffer& buffer, int root, ReduceOp op = ReduceOp::kSum, Stream producer = {});
  // output[r * n .. ] = rank r's input of n elements; output.count == n * world_size. Here and in
  // the following collectives, input and output must not overlap, except that a rank's own share of
  // n elements may lie at its place in the n * world_size elements.
  Work all_gather(const Buffer& input, const Buffer& output, Stream producer = {});
  // output of n elements = the reduction of all ranks' input[rank * n .. ]; input.count = n *
  // world_size.
  Work reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op = ReduceOp::kSum,
                      Stream producer = {});
  // As all_gather, but only to the root; `output` is ignored elsewhere.
  Work gather(const Buffer& input, const Buffer& output, int root, Stream producer = {});
  // output of n elements = the root's input[rank * n .. ]; `input` is ignored elsewhere.
  Work scatter(const Buffer& input, const Buffer& output, int root, Stream producer = {});
  // output[s * n .. ] = rank s's input[rank * n .. ]; both have n * world_size elements, and do not
  // overlap.
  Work all_to_all(const Buffer& input, const Buffer& output, Stream producer = {});
  // To and from one other rank. Sends of this rank to `dst` meet the receives there in order; count
  // and type must be the same on both sides.
  Work send(const Buffer& buffer, int dst, Stream producer = {});
  Work recv(const Buffer& buffer, int src, Stream producer = {});
  // Is done when every rank has submitted it and, on CUDA, its producer has reached it.
  Work barrier(Stream producer = {});

  // Operations that start together:
  //   auto batch = group->batch();
  //   (void)group->send(own, next);
  //   (void)group->recv(other, previous);
  //   batch.end().wait();
  // Sends and receives of one batch make progress concurrently. On the CPU they run before the
  // batch's collectives, so do not mix the two kinds where their order matters. On the CPU a batch
  // has at most 1024 operations; of more, end() throws std::logic_error.
  class [[nodiscard]] Batch;
  Batch batch();

  // From now on the group keeps the times of its last `operations` operations for Work::interval(),
  // which returns nothing for an older operation or one that is not done. This costs two clock
  // readings, on CUDA two events, for each operation. Of several calls the largest number counts.
  // Throws std::invalid_argument unless the number is 1 to kMaxTimedOperations.
  static constexpr std::uint64_t kMaxTimedOperations = 1024;
  void start_timing(std::uint64_t operations);

  // Zeroed memory on device() that suits this group's collectives. Must not outlive the group.
  // Freeing it releases it first, as release() does.
  [[nodiscard]] Allocation allocate(std::size_t size_bytes);

  // Waits until no operation of this group uses the memory any more: to be called before memory is
  // freed, or written, that no wait has covered, as after an exception. It waits as long as the
  // group's destruction; then the group breaks. False if an operation may use the memory even after
  // that.
  [[nodiscard]] bool release(const Buffer& memory) noexcept;

  // Makes a new group of the same ranks, whose operations do not queue behind this group's.
  // Collective.
  [[nodiscard]] std::shared_ptr<ProcessGroup> duplicate();
  // Makes one new group for each color, in which ranks are ordered by (key, rank). Returns null for
  // a negative color. Collective: it begins with an all_gather in this group.
  [[nodiscard]] std::shared_ptr<ProcessGroup> split(int color, int key);

  // A name for keys in store(). All ranks get the same name if they call this in the same order; no
  // name is returned twice.
  [[nodiscard]] std::string fresh_name(const std::string& purpose);

  // Breaks the group on all ranks: their waits throw PeerError with this rank and the reason.
  void abort(std::string_view reason);

  // For libddp's own parts, as is the next one (group_state.h, hang/flight_recorder.h).
  [[nodiscard]] GroupState& state() const { return *state_; }
  [[nodiscard]] FlightRecorder& recorder() const;
  // For a wait in the store, which does not end by itself when the group breaks: call it every now
  // and then. Throws the error that broke the group. Breaks it if this rank sees that one of the
  // ranks `awaited` has died or left, unless has_come(), which is called after that, says that what
  // the wait is for is there. For libddp's own use.
  virtual void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) = 0;
  // Throws the error that has broken the group, also if this rank has not heard of it yet. For
  // libddp's own use.
  void check_unbroken() {
    check_on({}, [] { return true; });
  }

 protected:
  explicit ProcessGroup(GroupConfig config);

  virtual void do_abort(std::string_view reason) = 0;
  [[nodiscard]] virtual Allocation do_allocate(std::size_t size_bytes) = 0;
  // For a backend that is done with the memory, or has enqueued its last use, when submit()
  // returns.
  virtual bool do_release(const Buffer&) noexcept { return true; }
  // Starts checked operations together; there is at least one. Returns the sequence number (1, 2,
  // ...) of the last one. Sequence numbers have no gaps.
  virtual std::uint64_t submit(std::span<const Collective> operations) = 0;
  virtual void wait(std::uint64_t sequence, Stream consumer) = 0;
  virtual void wait_host(std::uint64_t sequence, Timeout timeout) = 0;
  virtual void time_last(std::uint64_t operations) = 0;
  [[nodiscard]] virtual std::optional<Interval> interval(std::uint64_t sequence) = 0;
  // Makes a group of the same backend for other ranks.
  [[nodiscard]] virtual std::shared_ptr<ProcessGroup> make_child(GroupConfig config) = 0;

  [[nodiscard]] const GroupConfig& config() const;
  [[nodiscard]] const GroupNames& names() const;
  // For threads that may outlive the group.
  [[nodiscard]] const std::shared_ptr<FlightRecorder>& shared_recorder() const;
  [[nodiscard]] const std::shared_ptr<BreakReport>& shared_report() const;

 private:
  friend struct Work;

  Work run(const Collective& call, Stream producer);
  void check_process() const;
  void check_started(std::uint64_t sequence) const;
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_part(const std::string& name,
                                                        std::span<const int> members);

  std::unique_ptr<GroupState> state_;
};

// Holds back the operations submitted to its group until end(), which starts them together, behind
// the work that the producers hold at that time; the Work of end() covers all of them. Destroying a
// batch without end(), as an exception does, discards its operations, and the group is as before.
// Batches do not nest. For the thread that submits. Must not outlive the group.
class [[nodiscard]] ProcessGroup::Batch {
 public:
  [[nodiscard]] explicit Batch(ProcessGroup& group);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Call it once.
  Work end();

 private:
  ProcessGroup* group_;  // null after end()
};

// While it lives, operations submitted to the group wait this long for the other ranks, instead of
// the group's timeout; a send or recv must be over by then. In a batch each has its own, and the
// first that passes ends the batch; on nccl that of the last one counts for all. Throws
// std::invalid_argument unless it is above 0. For the thread that submits. Must not outlive the
// group.
class [[nodiscard]] ScopedTimeout : ScopedValue<Timeout> {
 public:
  [[nodiscard]] ScopedTimeout(ProcessGroup& group, Timeout timeout);
};

// While it lives, operations submitted to the group have this label in messages about hangs,
// timeouts, lost ranks and different calls: "all_gather #9 (batch norm in training mode)". The
// group keeps each different text, so use few. For the thread that submits. Must not outlive the
// group.
class [[nodiscard]] ScopedLabel : ScopedValue<std::uint32_t> {
 public:
  [[nodiscard]] ScopedLabel(ProcessGroup& group, const std::string& text);
};

}  // namespace ddp
