// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/error_record.h"
#include "ddp/base/scoped_value.h"
#include "ddp/base/step_file.h"
#include "ddp/base/stream.h"
#include "ddp/base/time.h"
#include "ddp/collectives/collective.h"
#include "ddp/store/store.h"

namespace ddp {

class FlightRecorder;
class HangWatch;
class ProcessGroup;

// Longer ones are taken for this, which stands for no timeout.
inline constexpr Timeout kLongestTimeout = std::chrono::hours(24 * 365);
inline constexpr Timeout kDefaultTimeout = std::chrono::minutes(10);
inline constexpr Timeout kDefaultStartTimeout = std::chrono::minutes(5);

// What makes a group, apart from the backend. Rank 0 .. world_size-1 build it together.
struct GroupConfig {
  std::shared_ptr<Store> store;  // already prefixed: nobody else writes under it
  // The same keys by another connection, which all groups of a process share for what their threads
  // tell and ask; nobody waits for a key there. Null: a clone of `store`.
  std::shared_ptr<Store> background_store = nullptr;
  int rank = 0;
  int world_size = 1;
  Device device = kCpuDevice;
  Timeout timeout = kDefaultTimeout;             // of every wait for the other ranks
  Timeout start_timeout = kDefaultStartTimeout;  // for the ranks to come together
  std::string name = "default";
  std::vector<int> job_ranks = {};                  // by rank of the group; empty: the same
  std::shared_ptr<HangWatch> hang_watch = nullptr;  // the job's, if there is one
  ErrorFile error_file = {};                        // for what breaks the group
  StepFile step_file = {};

  [[nodiscard]] int job_rank(int group_rank) const {
    return job_ranks.empty() ? group_rank : job_ranks[static_cast<std::size_t>(group_rank)];
  }
};

// The handle of one asynchronous operation; a value, valid while its group lives. The buffers may
// be touched only behind a wait, so whoever drops one on purpose, since a later operation's covers
// it, casts it to void.
struct [[nodiscard]] Work {
  ProcessGroup* group = nullptr;
  std::uint64_t sequence = 0;

  // Orders `consumer` behind the operation: on CUDA with an event and without blocking the host, on
  // the CPU by blocking until it is done. Throws the error that stopped the operation, if any.
  void wait(Stream consumer = {}) const;
  // Blocks the host until the operation is done; TimeoutError after `timeout`, which leaves the
  // operation running: its buffers must stay. Without a timeout, until it is done or the group's
  // own timeout breaks the group.
  void wait_host(Timeout timeout) const;
  void wait_host() const;
  // When the operation ran, on this host's clock; see ProcessGroup::start_timing().
  [[nodiscard]] std::optional<Interval> interval() const;
};

// Ranks that communicate. All of them call the same collectives in the same order; send and recv
// are matched in pairs. Operations run asynchronously, one after the other, behind the work that
// `producer` holds at the call. Buffers must stay alive and untouched until the operation is done.
//
// What goes wrong on one rank breaks the group on all of them. From then on every waiting and every
// later call throws the first error, in the same words and of the same class on every rank and
// backend:
//   TimeoutError   a rank has waited for the others for longer than its timeout
//   MismatchError  ranks have called different collectives
//   PeerError      a rank died, left, called abort(), or failed by itself
// Only a rank that failed by itself, such as by a CudaError, throws what it ran into instead.
// Destroying a group gives its operations a second to end, and does not wait for its peers else;
// but NCCL may close its connections only when all ranks of the host do, for which it is given 10
// s. A fork of the process cannot use the group: calls and waits throw std::logic_error there.
//
// Thread safety: operations from one thread at a time; abort() and the waits from any thread.
class ProcessGroup : public std::enable_shared_from_this<ProcessGroup> {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int rank() const { return config_.rank; }
  [[nodiscard]] int world_size() const { return config_.world_size; }
  [[nodiscard]] Device device() const { return config_.device; }
  // Of every wait for the other ranks, unless a ScopedTimeout says otherwise.
  [[nodiscard]] Timeout timeout() const { return config_.timeout; }
  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] Store& store() const { return *config_.store; }
  // What this group did last; a class for libddp's own use (flight_recorder.h).
  [[nodiscard]] FlightRecorder& recorder() const { return *recorder_; }
  // Its waits in the store, for the thread that submits; see meet().
  [[nodiscard]] FlightRecorder& meetings() const { return *meetings_; }
  // "shm", "nccl", "gloo", "shm+gloo", or "self" in a world of one.
  [[nodiscard]] virtual std::string_view backend() const = 0;

  // In place: every rank ends with the reduction over all ranks.
  Work all_reduce(const Buffer& buffer, ReduceOp op = ReduceOp::kSum, Stream producer = {});
  // In place: every rank ends with the root's elements.
  Work broadcast(const Buffer& buffer, int root, Stream producer = {});
  // In place on the root; the others' buffers are only read.
  Work reduce(const Buffer& buffer, ReduceOp op, int root, Stream producer = {});
  // output[r * n .. ] = rank r's input of n elements; output.count == n * world_size. Here and in
  // what follows input and output do not overlap, but for a rank's own share of n elements, which
  // may lie at its place in the n * world_size.
  Work all_gather(const Buffer& input, const Buffer& output, Stream producer = {});
  // output of n elements = reduction of everybody's input[rank * n .. ]; input.count = n * world.
  Work reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op = ReduceOp::kSum,
                      Stream producer = {});
  // all_gather to the root alone; `output` is ignored elsewhere.
  Work gather(const Buffer& input, const Buffer& output, int root, Stream producer = {});
  // output of n elements = the root's input[rank * n .. ]; `input` is ignored elsewhere.
  Work scatter(const Buffer& input, const Buffer& output, int root, Stream producer = {});
  // output[s * n .. ] = rank s's input[rank * n .. ]; both have n * world_size elements, and do not
  // overlap.
  Work all_to_all(const Buffer& input, const Buffer& output, Stream producer = {});
  Work send(const Buffer& buffer, int dst, Stream producer = {});
  Work recv(const Buffer& buffer, int src, Stream producer = {});
  Work barrier(Stream producer = {});

  // Operations that start together:
  //   auto batch = group->batch();
  //   (void)group->send(own, next);
  //   (void)group->recv(other, previous);
  //   batch.end().wait();
  // Sends and receives of one batch make progress concurrently; on the CPU they run before the
  // batch's collectives, so keep to one kind where their order matters.
  class [[nodiscard]] Batch;
  Batch batch();

  // From now on the group remembers when each of its last so many operations ran, for
  // Work::interval(), which says nothing of one that is older or not done yet. This costs two looks
  // at a clock, on CUDA two events, for each operation. Of several calls the largest number counts.
  // Throws std::invalid_argument unless it is 1 to kMaxTimedOperations.
  static constexpr std::uint64_t kMaxTimedOperations = 1024;
  void start_timing(std::uint64_t operations);

  // Memory that suits this group's collectives, on device(); zeroed. Must not outlive the group.
  [[nodiscard]] virtual Allocation allocate(std::size_t size_bytes) = 0;

  // A new group of the same ranks whose operations do not queue behind this one's. Collective.
  [[nodiscard]] std::shared_ptr<ProcessGroup> duplicate();
  // One new group per color, ranked by (key, rank); null for a negative color. Collective: it
  // begins with an all_gather of this group.
  [[nodiscard]] std::shared_ptr<ProcessGroup> split(int color, int key);

  // A name that all ranks get if they ask for names in the same order, and never twice: for keys in
  // store().
  [[nodiscard]] std::string fresh_name(const std::string& purpose);

  // For whoever submits operations for a caller who does not see them; see ScopedIssuer. 1, 2, ...:
  // the same on all ranks if they ask in the same order; from 255 on, 1 again.
  [[nodiscard]] std::uint8_t new_issuer();

  // Breaks the group on all ranks: whoever waits throws PeerError with this rank and reason.
  void abort(std::string_view reason);

 protected:
  explicit ProcessGroup(GroupConfig config);

  virtual void do_abort(std::string_view reason) = 0;
  // Runs checked operations, at least one, which start together. Returns the sequence number (1,
  // 2, ...) of the last one; the first one's is one more than what was returned before.
  virtual std::uint64_t submit(std::span<const Collective> operations) = 0;
  virtual void wait(std::uint64_t sequence, Stream consumer) = 0;
  virtual void wait_host(std::uint64_t sequence, Timeout timeout) = 0;
  virtual void time_last(std::uint64_t operations) = 0;
  [[nodiscard]] virtual std::optional<Interval> interval(std::uint64_t sequence) = 0;
  // The same backend for other ranks.
  [[nodiscard]] virtual std::shared_ptr<ProcessGroup> make_child(GroupConfig config) = 0;

  [[nodiscard]] const GroupConfig& config() const { return config_; }
  // For threads that may outlive the group.
  [[nodiscard]] const std::shared_ptr<FlightRecorder>& shared_recorder() const { return recorder_; }

 private:
  friend struct Work;
  friend class ScopedTimeout;
  friend class ScopedPart;
  friend class ScopedIssuer;
  friend class ScopedSolo;

  Work run(Collective collective, Stream producer);
  void check_process() const;
  void check_not_solo(std::string_view call) const;
  [[nodiscard]] const char*& solo(const char* where) {
    check_not_solo(where);
    return solo_in_;
  }
  void check_started(std::uint64_t sequence) const;
  void check_buffer(std::string_view name, const Buffer& buffer) const;
  void check_peer(std::string_view name, int peer) const;
  void check_op(std::string_view name, DType dtype, ReduceOp op) const;
  [[nodiscard]] GroupConfig child_config(const std::string& suffix, int rank, int world_size) const;
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_part(const std::string& name,
                                                        std::span<const int> members);

  GroupConfig config_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<FlightRecorder> meetings_;
  Timeout operation_timeout_;  // of what is submitted now
  std::uint64_t operation_part_of_ = 0;
  std::uint8_t operation_issuer_ = 0;
  std::uint8_t issuers_ = 0;
  const char* solo_in_ = nullptr;             // see ScopedSolo
  pid_t process_;                             // that made this
  std::atomic<std::uint64_t> submitted_ = 0;  // sequence of the last operation
  std::vector<Collective> batch_;             // what an open one has collected
  bool is_in_batch_ = false;
  int names_ = 0;
};

// Collects what is submitted to its group until end(), which starts it all, behind the work that
// the producers hold then, and whose Work covers it all. A batch that goes without end(), as by an
// exception, discards it: none of it starts, and the group is as before. Batches do not nest. For
// the thread that submits.
class [[nodiscard]] ProcessGroup::Batch {
 public:
  explicit Batch(ProcessGroup& group);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Once.
  Work end();

 private:
  ProcessGroup* group_;  // null: it has ended
};

// What is submitted to the group while it lives waits this long for the other ranks, in place of
// the group's timeout. For the thread that submits.
class [[nodiscard]] ScopedTimeout : ScopedValue<Timeout> {
 public:
  ScopedTimeout(ProcessGroup& group, Timeout timeout)
      : ScopedValue(group.operation_timeout_, timeout) {}
};

// What is submitted to the group while it lives is a part of something larger, of which `part_of`
// is a hash: a backend that compares calls for each operation (gloo) compares that as well. For the
// thread that submits.
class [[nodiscard]] ScopedPart : ScopedValue<std::uint64_t> {
 public:
  ScopedPart(ProcessGroup& group, std::uint64_t part_of)
      : ScopedValue(group.operation_part_of_, part_of) {}
};

// What is submitted to the group while it lives is submitted for an issuer, such as an engine,
// which must be the same on all ranks: two engines submit operations that look alike. 0 is the
// program itself. For the thread that submits.
class [[nodiscard]] ScopedIssuer : ScopedValue<std::uint8_t> {
 public:
  ScopedIssuer(ProcessGroup& group, std::uint8_t issuer)
      : ScopedValue(group.operation_issuer_, issuer) {}
};

// While it lives the other ranks wait for this one to end what is named `where`, so that nobody
// would join what this one submits to the group: std::logic_error, at once, as is a second one. For
// the thread that submits.
class [[nodiscard]] ScopedSolo : ScopedValue<const char*> {
 public:
  ScopedSolo(ProcessGroup& group, const char* where) : ScopedValue(group.solo(where), where) {}
};

}  // namespace ddp
