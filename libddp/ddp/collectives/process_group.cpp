// SPDX-License-Identifier: MIT
#include "ddp/collectives/process_group.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/base/tensor_writes.h"
#include "ddp/collectives/check/operand_check.h"
#include "ddp/collectives/group_scopes.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/wait_time.h"

namespace ddp {
namespace {

Timeout checked(Timeout timeout) {
  if (timeout > Timeout(0)) return std::min(timeout, kLongestTimeout);
  throw std::invalid_argument("a timeout is " + std::to_string(timeout.count()) +
                              " ms, but it must be above 0");
}

}  // namespace

void Work::wait(Stream consumer) const {
  if (group == nullptr) throw std::logic_error("wait for a Work that stands for no operation");
  group->check_process();
  const FlightRecorder::Inside inside(group->recorder());
  group->check_started(sequence);
  if (group->device().is_cuda()) return group->wait(sequence, consumer);  // does not block
  const WaitTimer timer;
  group->wait(sequence, consumer);
}

void Work::wait_host(Timeout timeout) const {
  if (group == nullptr) throw std::logic_error("wait for a Work that stands for no operation");
  group->check_process();
  const FlightRecorder::Inside inside(group->recorder());
  group->check_started(sequence);
  const WaitTimer timer;
  group->wait_host(sequence, timeout);
}

void Work::wait_host() const { wait_host(Timeout::max()); }

std::optional<Interval> Work::interval() const {
  if (group == nullptr) throw std::logic_error("interval of a Work that stands for no operation");
  group->check_process();
  return group->interval(sequence);
}

ProcessGroup::ProcessGroup(GroupConfig config)
    : state_(std::make_unique<GroupState>(std::move(config))) {}

ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const noexcept { return config().rank; }
[[gnu::hot]] int ProcessGroup::world_size() const noexcept { return config().world_size; }
[[gnu::hot]] Device ProcessGroup::device() const noexcept { return config().device; }
Timeout ProcessGroup::timeout() const noexcept { return config().timeout; }
const std::string& ProcessGroup::name() const noexcept { return config().name; }
[[gnu::hot]] FlightRecorder& ProcessGroup::recorder() const { return *state_->recorder; }
const GroupConfig& ProcessGroup::config() const { return state_->config; }
const GroupNames& ProcessGroup::names() const { return state_->names; }
const std::shared_ptr<FlightRecorder>& ProcessGroup::shared_recorder() const {
  return state_->recorder;
}
const std::shared_ptr<BreakReport>& ProcessGroup::shared_report() const { return state_->report; }

int ProcessGroup::job_rank(int rank) const {
  if (rank < 0 || rank >= world_size()) {
    throw std::invalid_argument("job_rank: a group of " + std::to_string(world_size()) +
                                " ranks has no rank " + std::to_string(rank));
  }
  return config().job_rank(rank);
}

Store& ProcessGroup::store() const {
  check_process();
  return state_->user_store;
}

Allocation ProcessGroup::allocate(std::size_t size_bytes) {
  check_process();
  return do_allocate(size_bytes);
}

// The other ranks will report a peer's error; on this rank it is our own.
void ProcessGroup::abort(std::string_view reason) {
  check_process();
  config().launcher.error_file.keep({.message = std::string(reason), .step = state_->step()});
  do_abort(reason);
}

bool ProcessGroup::release(const Buffer& memory) noexcept {
  return !state_->process.is_here() || do_release(memory);
}

void ProcessGroup::start_timing(std::uint64_t operations) {
  check_process();
  if (operations == 0 || operations > kMaxTimedOperations) {
    throw std::invalid_argument("cannot time the last " + std::to_string(operations) +
                                " operations, only 1 to " + std::to_string(kMaxTimedOperations));
  }
  time_last(operations);
}

ProcessGroup::Batch ProcessGroup::batch() { return Batch(*this); }

ProcessGroup::Batch::Batch(ProcessGroup& group) : group_(&group) {
  if (group.state().is_in_batch) {
    throw std::logic_error("a group's batch() was called before its last batch ended");
  }
  group.state().is_in_batch = true;
}

ProcessGroup::Batch::~Batch() {
  if (group_ == nullptr) return;
  group_->state().is_in_batch = false;
  group_->state().batch.clear();
}

Work ProcessGroup::Batch::end() {
  if (group_ == nullptr) throw std::logic_error("end() was called twice on a batch");
  group_->check_process();
  ProcessGroup& group = *std::exchange(group_, nullptr);
  GroupState& state = group.state();
  const FlightRecorder::Inside inside(*state.recorder);
  state.is_in_batch = false;
  const std::vector<Collective> operations = std::exchange(state.batch, {});
  if (!operations.empty()) state.submitted = group.submit(operations);
  return {&group, state.submitted};
}

// The checks on the first operation of a batch cover the whole batch.
Work ProcessGroup::run(const Collective& call, Stream producer) {
  GroupState& state = *state_;
  check_process();
  check_not_solo(state, to_string(call.kind));
  check_operands(call, {rank(), world_size(), device(), name()});
  const FlightRecorder::Inside inside(*state.recorder);
  Collective collective = call;
  collective.producer = producer;
  collective.context = state.context;
  if (state.is_in_batch) {
    state.batch.push_back(collective);
    return {this, state.submitted + 1};
  }
  state.submitted = submit({&collective, 1});
  return {this, state.submitted};
}

// The other ranks would take messages of a forked child for its parent's.
void ProcessGroup::check_process() const {
  if (state_->process.is_here()) return;
  throw std::logic_error("group \"" + name() + "\" belongs to process " +
                         std::to_string(state_->process.pid()) +
                         "; this process is a fork of it and cannot use it");
}

void ProcessGroup::check_started(std::uint64_t sequence) const {
  if (sequence <= state_->submitted) return;
  throw std::logic_error("group \"" + name() + "\": wait for operation #" +
                         std::to_string(sequence) + ", which starts when its batch ends");
}

Work ProcessGroup::all_reduce(const Buffer& buffer, ReduceOp op, Stream producer) {
  return run({CollectiveKind::kAllReduce, buffer, buffer, op}, producer);
}

Work ProcessGroup::broadcast(const Buffer& buffer, int root, Stream producer) {
  note_tensor_writes();
  return run({CollectiveKind::kBroadcast, buffer, buffer, ReduceOp::kSum, root}, producer);
}

Work ProcessGroup::reduce(const Buffer& buffer, int root, ReduceOp op, Stream producer) {
  return run({CollectiveKind::kReduce, buffer, buffer, op, root}, producer);
}

Work ProcessGroup::all_gather(const Buffer& input, const Buffer& output, Stream producer) {
  return run({CollectiveKind::kAllGather, input, output}, producer);
}

Work ProcessGroup::reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op,
                                  Stream producer) {
  return run({CollectiveKind::kReduceScatter, input, output, op}, producer);
}

Work ProcessGroup::gather(const Buffer& input, const Buffer& output, int root, Stream producer) {
  return run({CollectiveKind::kGather, input, output, ReduceOp::kSum, root}, producer);
}

Work ProcessGroup::scatter(const Buffer& input, const Buffer& output, int root, Stream producer) {
  return run({CollectiveKind::kScatter, input, output, ReduceOp::kSum, root}, producer);
}

Work ProcessGroup::all_to_all(const Buffer& input, const Buffer& output, Stream producer) {
  return run({CollectiveKind::kAllToAll, input, output}, producer);
}

Work ProcessGroup::send(const Buffer& buffer, int dst, Stream producer) {
  return run({CollectiveKind::kSend, buffer, buffer, ReduceOp::kSum, dst}, producer);
}

Work ProcessGroup::recv(const Buffer& buffer, int src, Stream producer) {
  return run({CollectiveKind::kRecv, buffer, buffer, ReduceOp::kSum, src}, producer);
}

Work ProcessGroup::barrier(Stream producer) {
  const Buffer nothing(nullptr, 0, DType::kFloat32, device());
  return run({CollectiveKind::kBarrier, nothing, nothing}, producer);
}

std::string ProcessGroup::fresh_name(const std::string& purpose) {
  check_process();
  const bool ends_with_digit = !purpose.empty() && purpose.back() >= '0' && purpose.back() <= '9';
  return purpose + (ends_with_digit ? "_" : "") + std::to_string(state_->fresh_names++);
}

ScopedTimeout::ScopedTimeout(ProcessGroup& group, Timeout timeout)
    : ScopedValue(group.state().context.timeout, checked(timeout)) {}

ScopedLabel::ScopedLabel(ProcessGroup& group, const std::string& text)
    : ScopedValue(group.state().context.label, group.recorder().labels().add(text)) {}

}  // namespace ddp
