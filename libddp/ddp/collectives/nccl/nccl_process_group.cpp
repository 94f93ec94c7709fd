// SPDX-License-Identifier: MIT
//
// Two streams: the caller's and the group's own side stream, of the greatest priority so that a
// collective's few blocks do not queue behind a large GEMM. Each operation is an event from the
// producer to the side stream, NCCL's kernel there, and a completion event that consumers wait for.
#include "ddp/collectives/nccl/nccl_process_group.h"

#include <fmt/core.h>

#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/check/call_check.h"
#include "ddp/collectives/failure/break_report.h"
#include "ddp/collectives/failure/first_error.h"
#include "ddp/collectives/failure/peer_roll.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/collectives/nccl/event_ring.h"
#include "ddp/collectives/nccl/nccl_calls.h"
#include "ddp/collectives/nccl/nccl_communicator.h"
#include "ddp/collectives/nccl/nccl_failure.h"
#include "ddp/collectives/nccl/nccl_memory.h"
#include "ddp/collectives/nccl/nccl_watchdog.h"
#include "ddp/collectives/nccl/operation_timer.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

// How long a rank that leaves in disorder waits for a collective that its device has reached.
constexpr Timeout kLeaveTimeout = std::chrono::seconds(1);
constexpr Timeout kAbortTimeout = std::chrono::seconds(5);
constexpr auto kPollInterval = std::chrono::microseconds(20);

GroupConfig checked(GroupConfig config) {
  if (config.device.is_cuda()) return config;
  throw std::invalid_argument("[nccl] group \"" + config.name + "\": needs a CUDA device, got " +
                              to_string(config.device));
}

MemoryRange range_of(const void* data, std::size_t size_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {begin, begin + size_bytes};
}

MemoryRanges operands_of(std::span<const Collective> operations) {
  MemoryRanges all;
  for (const Collective& each : operations) {
    for (const Buffer& operand : {each.input, each.output}) {
      if (operand.count > 0) all.add(range_of(operand.data, operand.size_bytes()));
    }
  }
  return all;
}

class NcclProcessGroup final : public ProcessGroup {
 public:
  explicit NcclProcessGroup(GroupConfig config, std::shared_ptr<FirstError> parent_error = nullptr);
  ~NcclProcessGroup() override;

  std::string_view backend() const override { return "nccl"; }
  void check_on(std::span<const int> awaited, const std::function<bool()>& has_come) override {
    roll_.check_on(awaited, has_come, *first_error_, "[nccl]");
  }

 protected:
  Allocation do_allocate(std::size_t size_bytes) override;
  void do_abort(std::string_view reason) override;
  bool do_release(const Buffer& memory) noexcept override;
  std::uint64_t submit(std::span<const Collective> operations) override;
  void wait(std::uint64_t sequence, Stream consumer) override;
  void wait_host(std::uint64_t sequence, Timeout timeout) override;
  void time_last(std::uint64_t operations) override;
  std::optional<Interval> interval(std::uint64_t sequence) override;
  std::shared_ptr<ProcessGroup> make_child(GroupConfig config) override {
    return make_group_object<NcclProcessGroup>(std::move(config), first_error_);
  }

 private:
  [[nodiscard]] int job_rank() const { return config().job_rank(rank()); }
  void make_room();
  void wait_until_done(std::uint64_t sequence, Timeout timeout);
  void order_behind_producers(std::span<const Collective> operations);
  void enqueue(std::span<const Collective> operations);
  void leave() noexcept;
  [[nodiscard]] Timeout patience_with_others() const;
  template <class IsNeeded, class Reason>
  bool finish_or_break(const IsNeeded& is_needed, const Reason& reason) noexcept;

  const NcclApi& nccl() const { return communicator_->api(); }

  std::shared_ptr<NcclCommunicator> communicator_;
  NcclMemory memory_;
  cu::OwnedStream side_;
  Allocation barrier_element_;
  EventRing operations_;
  std::optional<OperationTimer> timer_;
  std::shared_ptr<FirstError> first_error_;  // which the groups made from this one break, too
  PeerRoll roll_;
  std::unique_ptr<CallCheck> check_;
  std::unique_ptr<NcclWatchdog> watchdog_;  // last: it uses the others
};

NcclProcessGroup::NcclProcessGroup(GroupConfig group_config,
                                   std::shared_ptr<FirstError> parent_error)
    : ProcessGroup(checked(std::move(group_config))),
      communicator_(std::make_shared<NcclCommunicator>(config())),
      memory_(communicator_, config(), nccl_registration_from_environment()),
      side_(device(), cu::StreamPriority::kGreatest),
      barrier_element_(cu::allocate_device(sizeof(float), device())),
      operations_(device()),
      first_error_(std::make_shared<FirstError>(
          config().background_store, job_rank(),
          [recorder = shared_recorder(), report = shared_report()](
              const std::exception_ptr& error) { report->tell(*recorder, error); },
          std::move(parent_error))),
      roll_(config()) {
  check_ = std::make_unique<CallCheck>(
      config(), shared_recorder(), CallCheckLimits::from_environment(),
      [this](const std::string& text) { first_error_->set(MismatchError("[nccl] " + text)); });
  watchdog_ = std::make_unique<NcclWatchdog>(NcclWatchdog::Watched{
      *communicator_, operations_, *first_error_, recorder(), roll_, config(), names()});
}

NcclProcessGroup::~NcclProcessGroup() {
  leave();
  roll_.leave(recorder().position().collectives);
  watchdog_.reset();
  first_error_->is_set() ? communicator_->abort() : communicator_->destroy();
}

Allocation NcclProcessGroup::do_allocate(std::size_t size_bytes) {
  return memory_.allocate(
      size_bytes, [self = weak_from_this(), device = device()](void* memory, std::size_t size) {
        const auto alive = self.lock();
        if (alive) static_cast<void>(alive->release({memory, size, DType::kUInt8, device}));
      });
}

void NcclProcessGroup::time_last(std::uint64_t operations) {
  const cu::DeviceGuard guard(device());
  if (!timer_ || timer_->capacity() < operations) {
    timer_.emplace(device(), side_.view(), operations);
  }
}

std::optional<Interval> NcclProcessGroup::interval(std::uint64_t sequence) {
  return timer_ ? timer_->interval(sequence) : std::nullopt;
}

// Waits until no operation of this group runs any more.
void NcclProcessGroup::leave() noexcept {
  finish_or_break([this] { return !operations_.idle(); },
                  [this](const std::string& operation) {
                    return fmt::format("{} left group \"{}\" during {}", names().self(), name(),
                                       operation);
                  });
}

bool NcclProcessGroup::do_release(const Buffer& memory) noexcept {
  const MemoryRange range = range_of(memory.data, memory.size_bytes());
  return finish_or_break([&] { return operations_.uses(range); },
                         [this](const std::string& operation) {
                           return fmt::format("{} freed memory of group \"{}\" during {}",
                                              names().self(), name(), operation);
                         });
}

// Hosts run ahead of their devices: the end of a rank that has done all it should may come long
// before a rank that loads data or saves calls the last collective, which must not be torn down
// meanwhile. The watchdog ends that wait by the operation's own timeout, or once a rank that it
// needs is lost. A rank that has failed does not wait, since the others may have failed, too.
Timeout NcclProcessGroup::patience_with_others() const {
  const bool is_thrown = std::uncaught_exceptions() > 0 || std::current_exception() != nullptr;
  return is_thrown || recorder().position().has_left_step ? kLeaveTimeout : kLongestTimeout;
}

// If an operation does not end by itself, this breaks the group, and the watchdog ends the
// operation; so the other ranks learn the reason. If the device is still computing earlier work,
// the operation's time has not begun. False if an operation may be needed still.
template <class IsNeeded, class Reason>
bool NcclProcessGroup::finish_or_break(const IsNeeded& is_needed, const Reason& reason) noexcept {
  std::uint64_t oldest = 0;
  const Timeout patience = patience_with_others();
  Deadline by_itself = Deadline::after(patience);
  std::optional<Deadline> by_abort;
  try {
    while (is_needed() && !(by_abort && by_abort->passed())) {
      const std::uint64_t unfinished = operations_.oldest_unfinished();
      if (std::exchange(oldest, unfinished) != unfinished || !operations_.is_reached(unfinished)) {
        by_itself = Deadline::after(patience);
      }
      if (!by_abort && (by_itself.passed() || first_error_->is_set())) {
        first_error_->leave(
            PeerError("[nccl] " + reason(to_string(operations_.signature(unfinished)))));
        by_abort = Deadline::after(kAbortTimeout);
      }
      std::this_thread::sleep_for(kPollInterval);
    }
    return !is_needed();
  } catch (const CudaError& error) {
    first_error_->set(error);
  } catch (const std::exception&) {  // such as bad_alloc
  }
  return false;
}

// All of them get one number. The watchdog uses the name of the first one and the timeout of the
// last one. If this fails, the group is broken: the other ranks wait for an operation that was
// begun.
std::uint64_t NcclProcessGroup::submit(std::span<const Collective> operations) {
  first_error_->rethrow_if_set();
  make_room();
  const std::uint64_t sequence = operations_.next();
  for (const Collective& each : operations) recorder().submitted(sequence, each);
  const CollectiveSignature signature = signature_of(operations.front(), sequence);
  operations_.begin(signature, operations.back().context.timeout, operands_of(operations));
  const cu::DeviceGuard guard(device());
  try {
    order_behind_producers(operations);
    if (timer_) timer_->begin(sequence);
    enqueue(operations);
    if (timer_) timer_->end(sequence);
    operations_.record(side_.view());
  } catch (const std::exception& error) {  // such as bad_alloc
    operations_.record_some(side_.view());
    break_group(*first_error_, roll_, recorder(),
                {.rank = names().self(),
                 .call = signature,
                 .operation = to_string(signature) + names().of_group()},
                describe(error));
    first_error_->rethrow_if_set();
  }
  return sequence;
}

void NcclProcessGroup::order_behind_producers(std::span<const Collective> operations) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Stream producer = operations[i].producer;
    if (i > 0 && producer.native == operations[i - 1].producer.native) continue;
    operations_.order_behind(producer, side_.view());
  }
}

// Blocks only a host that is EventRing::kCapacity operations ahead of its device, and until the
// oldest of them is done or the watchdog breaks the group, since nothing of the next operation has
// begun yet.
void NcclProcessGroup::make_room() {
  const std::uint64_t next = operations_.next();
  if (next > EventRing::kCapacity) wait_until_done(next - EventRing::kCapacity, kLongestTimeout);
}

void NcclProcessGroup::enqueue(std::span<const Collective> operations) {
  const Buffer element{barrier_element_.data(), 1, DType::kFloat32, device()};
  communicator_->call([&](ncclComm_t comm) {
    enqueue_on_nccl(operations, {nccl(), comm, side_.view().native, rank(), world_size(), element});
  });
  for (const Collective& each : operations) {
    if (each.op == ReduceOp::kAverage && receives(each, rank())) {
      cu::scale(each.output, 1.0 / world_size(), side_.view());
    }
  }
}

void NcclProcessGroup::wait(std::uint64_t sequence, Stream consumer) {
  first_error_->rethrow_if_set();
  operations_.make_wait(sequence, consumer);
}

// An abort ends the operation, too, on any rank: an aborted kernel signals its peers as if it had
// sent its part. Whoever aborts tells the store before, so this looks there; the thread that
// listens may do so later.
void NcclProcessGroup::wait_host(std::uint64_t sequence, Timeout timeout) {
  wait_until_done(sequence, timeout);
  first_error_->poll_if_answering();
  first_error_->rethrow_if_set();
}

void NcclProcessGroup::wait_until_done(std::uint64_t sequence, Timeout timeout) {
  const Deadline deadline = Deadline::after(timeout);
  first_error_->rethrow_if_set();
  while (!operations_.done(sequence)) {
    first_error_->rethrow_if_set();
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("[nccl] {}: wait for {}{}: not finished after {} ms",
                                     names().self(), to_string(operations_.signature(sequence)),
                                     names().of_group(), timeout.count()));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

// The watchdog will see the error and end running kernels.
void NcclProcessGroup::do_abort(std::string_view reason) {
  first_error_->set(PeerError(fmt::format("[nccl] {} aborted: {}", names().self(), reason)));
}

}  // namespace

std::shared_ptr<ProcessGroup> make_nccl_process_group(GroupConfig config) {
  return make_group_object<NcclProcessGroup>(std::move(config));
}

}  // namespace ddp
