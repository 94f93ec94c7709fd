// SPDX-License-Identifier: MIT
#include "ddp/collectives/process_group.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/check/operand_check.h"
#include "ddp/collectives/hang/event_report.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/hang/hang_watch.h"
#include "ddp/collectives/hang/solo_calls.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/single_process_group.h"
#include "ddp/collectives/start/group_start.h"
#include "ddp/collectives/start/meeting.h"
#include "ddp/collectives/start/rank_identity.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

// Only one meeting is pending at a time; the others are history.
constexpr std::size_t kMeetings = 64;

std::optional<std::int64_t> begun(std::uint64_t step) {
  return step == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(step));
}

std::shared_ptr<FlightRecorder> make_recorder(const GroupConfig& config) {
  const auto report = [group = "group " + config.name + " of " + std::to_string(config.world_size),
                       rank = config.job_rank(config.rank), device = config.device,
                       file = config.error_file](const FlightRecorder& recorder,
                                                 const std::exception_ptr& error) {
    file.keep({describe(error), begun(recorder.position().step), is_caused_by_peer(error)});
    const std::string title = to_string(identify_self(rank, device)) + ", " + group + " ranks";
    append_to_events_file(recorder, title, describe(error));
  };
  const std::size_t capacity = config.world_size > 1 ? FlightRecorder::kCapacity : 0;
  return std::make_shared<FlightRecorder>(
      capacity, FlightRecorder::Listeners{.slot = config.worker_slot, .broken = report});
}

// The ranks of this color, by (key, rank). It is an operation of the group, so a rank that does not
// come, or calls something else, is detected as usual.
std::vector<int> find_part(ProcessGroup& group, int color, int key) {
  const FlightRecorder::Labelled labelled(group.recorder(), group.recorder().labels().add("split"));
  const std::vector<int> all = all_gather_on_host(group, std::array{color, key});
  std::vector<std::pair<int, int>> members;  // (key, rank)
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank) {
    if (all[2 * rank] == color) members.emplace_back(all[2 * rank + 1], static_cast<int>(rank));
  }
  std::ranges::sort(members);
  std::vector<int> ranks;
  for (const auto& [its_key, rank] : members) ranks.push_back(rank);
  return ranks;
}

}  // namespace

void Work::wait(Stream consumer) const {
  if (group == nullptr) throw std::logic_error("wait for a Work that stands for no operation");
  group->check_process();
  const FlightRecorder::Inside inside(group->recorder());
  group->check_started(sequence);
  group->wait(sequence, consumer);
}

void Work::wait_host(Timeout timeout) const {
  if (group == nullptr) throw std::logic_error("wait for a Work that stands for no operation");
  group->check_process();
  const FlightRecorder::Inside inside(group->recorder());
  group->check_started(sequence);
  group->wait_host(sequence, timeout);
}

void Work::wait_host() const { wait_host(Timeout::max()); }

std::optional<Interval> Work::interval() const {
  if (group == nullptr) throw std::logic_error("interval of a Work that stands for no operation");
  return group->interval(sequence);
}

ProcessGroup::ProcessGroup(GroupConfig config)
    : config_(std::move(config)),
      recorder_(make_recorder(config_)),
      meetings_(std::make_shared<FlightRecorder>(config_.world_size > 1 ? kMeetings : 0)),
      operation_timeout_(config_.timeout) {
  if (!config_.background_store && config_.store) {
    config_.background_store = config_.store->clone(kBackgroundStoreTimeout);
  }
  if (config_.job_ranks.empty()) {
    config_.job_ranks.resize(static_cast<std::size_t>(config_.world_size));
    std::iota(config_.job_ranks.begin(), config_.job_ranks.end(), 0);
  }
  if (!config_.solo_calls) config_.solo_calls = std::make_shared<SoloCalls>();
  if (!config_.hang_watch) return;
  config_.hang_watch->add(config_.name, config_.job_ranks, recorder_);
  config_.hang_watch->add(config_.name, config_.job_ranks, meetings_, " meetings");
}

// The other ranks will report a peer's error; on this rank it is our own.
void ProcessGroup::abort(std::string_view reason) {
  config_.error_file.keep(
      {.message = std::string(reason), .step = begun(recorder_->position().step)});
  do_abort(reason);
}

void ProcessGroup::start_timing(std::uint64_t operations) {
  if (operations == 0 || operations > kMaxTimedOperations) {
    throw std::invalid_argument("cannot time the last " + std::to_string(operations) +
                                " operations, only 1 to " + std::to_string(kMaxTimedOperations));
  }
  time_last(operations);
}

ProcessGroup::Batch ProcessGroup::batch() { return Batch(*this); }

ProcessGroup::Batch::Batch(ProcessGroup& group) : group_(&group) {
  if (group.is_in_batch_) {
    throw std::logic_error("a group's batch() was called before its last batch ended");
  }
  group.is_in_batch_ = true;
}

ProcessGroup::Batch::~Batch() {
  if (group_ == nullptr) return;
  group_->is_in_batch_ = false;
  group_->batch_.clear();
}

Work ProcessGroup::Batch::end() {
  if (group_ == nullptr) throw std::logic_error("end() was called twice on a batch");
  group_->check_process();
  ProcessGroup& group = *std::exchange(group_, nullptr);
  const FlightRecorder::Inside inside(*group.recorder_);
  group.is_in_batch_ = false;
  const std::vector<Collective> operations = std::exchange(group.batch_, {});
  if (!operations.empty()) group.submitted_ = group.submit(operations);
  return {&group, group.submitted_};
}

// The checks on the first operation of a batch cover the whole batch.
Work ProcessGroup::run(Collective collective, Stream producer) {
  check_process();
  check_not_solo(to_string(collective.kind));
  check_operands(collective, {rank(), world_size(), device()});
  const FlightRecorder::Inside inside(*recorder_);
  collective.timeout = std::min(operation_timeout_, kLongestTimeout);
  collective.part_of = operation_part_of_;
  collective.issuer = operation_issuer_;
  collective.producer = producer;
  if (is_in_batch_) {
    batch_.push_back(collective);
    return {this, submitted_ + 1};
  }
  submitted_ = submit({&collective, 1});
  return {this, submitted_};
}

// The other ranks would take messages of a forked child for its parent's.
void ProcessGroup::check_process() const {
  if (process_.is_here()) return;
  throw std::logic_error("group \"" + name() + "\" belongs to process " +
                         std::to_string(process_.pid()) +
                         "; this process is a fork of it and cannot use it");
}

void ProcessGroup::check_not_solo(std::string_view call) const {
  const char* where = solo_in_;
  if (where == nullptr) where = config_.solo_calls->keeps_away(config_.job_ranks);
  if (where == nullptr) return;
  throw std::logic_error("[" + std::string(where) + "] " + std::string(call) +
                         " was called inside the function for whose end the other ranks wait, so "
                         "they would never join it: call it before or after, on all ranks");
}

void ProcessGroup::check_started(std::uint64_t sequence) const {
  if (sequence <= submitted_) return;
  throw std::logic_error("group \"" + name() + "\": wait for operation #" +
                         std::to_string(sequence) + ", which starts when its batch ends");
}

Work ProcessGroup::all_reduce(const Buffer& buffer, ReduceOp op, Stream producer) {
  return run({CollectiveKind::kAllReduce, buffer, buffer, op}, producer);
}

Work ProcessGroup::broadcast(const Buffer& buffer, int root, Stream producer) {
  return run({CollectiveKind::kBroadcast, buffer, buffer, ReduceOp::kSum, root}, producer);
}

Work ProcessGroup::reduce(const Buffer& buffer, ReduceOp op, int root, Stream producer) {
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
  const Buffer nothing{.device = device()};
  return run({CollectiveKind::kBarrier, nothing, nothing}, producer);
}

GroupConfig ProcessGroup::child_config(const std::string& suffix, int rank, int world_size) const {
  GroupConfig child = config_;
  child.store = std::make_shared<PrefixStore>(suffix, config_.store);
  child.background_store = std::make_shared<PrefixStore>(suffix, config_.background_store);
  child.rank = rank;
  child.world_size = world_size;
  child.name = config_.name + "/" + suffix;
  return child;
}

std::uint8_t ProcessGroup::new_issuer() {
  issuers_ = issuers_ == 255 ? 1 : static_cast<std::uint8_t>(issuers_ + 1);
  return issuers_;
}

std::string ProcessGroup::fresh_name(const std::string& purpose) {
  return purpose + std::to_string(names_++);
}

// Ranks first meet in an operation, in which the death of one ends the others' waits at once; a
// wait in the store does not notice it.
std::shared_ptr<ProcessGroup> ProcessGroup::duplicate() {
  {
    const FlightRecorder::Labelled labelled(*recorder_, recorder_->labels().add("duplicate"));
    barrier().wait_host();
  }
  std::vector<int> everybody(static_cast<std::size_t>(world_size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::shared_ptr<ProcessGroup> child;
  meet(*meetings_, "duplicate", [&] {
    child = start_child(child_config(fresh_name("duplicate"), rank(), world_size()), everybody);
  });
  return child;
}

std::shared_ptr<ProcessGroup> ProcessGroup::split(int color, int key) {
  check_not_solo("split");
  const std::string name = fresh_name("split") + "/color" + std::to_string(color);
  const std::vector<int> members = find_part(*this, color, key);
  std::shared_ptr<ProcessGroup> child;
  meet(*meetings_, "split", [&] {
    if (color >= 0) child = make_part(name, members);
  });
  return child;
}

std::shared_ptr<ProcessGroup> ProcessGroup::make_part(const std::string& name,
                                                      std::span<const int> members) {
  const auto self = std::find(members.begin(), members.end(), rank());
  GroupConfig child = child_config(name, static_cast<int>(self - members.begin()),
                                   static_cast<int>(members.size()));
  child.job_ranks.clear();
  for (const int member : members) child.job_ranks.push_back(config_.job_rank(member));
  if (child.world_size == 1) return make_single_process_group(std::move(child));
  return start_child(std::move(child), members);
}

// `members` are the child's ranks, numbered as in this group. All of them wait for their rank 0,
// and it waits for all of them.
std::shared_ptr<ProcessGroup> ProcessGroup::start_child(GroupConfig config,
                                                        std::span<const int> members) {
  std::vector<int> awaited(members.begin(), config.rank == 0 ? members.end() : members.begin() + 1);
  std::erase(awaited, rank());
  config.while_starting = [self = weak_from_this(),
                           awaited = std::move(awaited)](const std::function<bool()>& has_come) {
    if (const auto parent = self.lock()) parent->check_on(awaited, has_come);
  };
  return start_group(std::move(config),
                     [this](GroupConfig child) { return make_child(std::move(child)); });
}

ScopedSolo::ScopedSolo(ProcessGroup& group, const char* where) : group_(group) {
  group.check_not_solo(where);
  std::vector<int> waiting = group.config_.job_ranks;
  std::erase(waiting, group.config_.job_rank(group.rank()));
  group.config_.solo_calls->begin(where, std::move(waiting));
  group.solo_in_ = where;
}

ScopedSolo::~ScopedSolo() {
  group_.solo_in_ = nullptr;
  group_.config_.solo_calls->end();
}

}  // namespace ddp
