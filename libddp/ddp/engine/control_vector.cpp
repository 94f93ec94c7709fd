// SPDX-License-Identifier: MIT
#include "ddp/engine/control_vector.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {
namespace {

std::string describe_epoch(int rank, double epoch) {
  return "rank " + std::to_string(rank) + " in epoch " +
         std::to_string(static_cast<std::int64_t>(epoch));
}

}  // namespace

ControlVector::ControlVector(ProcessGroup& group)
    : group_(group),
      count_(rank_index(group.world_size())),
      memory_(group.allocate(count_ * sizeof(double))),
      last_times_(static_cast<std::size_t>(group.world_size())),
      last_active_(last_times_.size(), 1) {
  const bool cuda = group.device().is_cuda();
  const cu::DeviceGuard guard(group.device());
  const std::size_t arrived_bytes = kArrivals * count_ * sizeof(double);
  arrived_ = cuda ? cu::allocate_pinned(arrived_bytes) : allocate_host(arrived_bytes);
  for (std::size_t i = 0; i < kArrivals; ++i) {
    arrivals_[i].sums = static_cast<double*>(arrived_.data()) + i * count_;
    if (cuda) arrivals_[i].copied = cu::Event(group.device());
  }
  host_ = static_cast<double*>(memory_.data());
  if (!cuda) return;
  to_host_ = cu::OwnedStream(group.device());
  for (Outgoing& each : outgoing_) {
    each = {cu::allocate_pinned(count_ * sizeof(double)), cu::Event(group.device())};
  }
  host_ = static_cast<double*>(outgoing_[0].memory.data());
}

Buffer ControlVector::buffer() const {
  return {memory_.data(), count_, DType::kFloat64, group_.device()};
}

Buffer ControlVector::pass() const { return buffer().slice(0, kState); }

Buffer ControlVector::carried() const {
  return {carried_.data(), kState, DType::kFloat64, group_.device()};
}

void ControlVector::reset(double samples, double nominal_samples) {
  if (group_.device().is_cuda()) {
    turn_ ^= 1U;
    outgoing_[turn_].sent.synchronize();  // of the step before the last: done long ago
    host_ = static_cast<double*>(outgoing_[turn_].memory.data());
  }
  // Alone the rest is 0 for ever, unless state that is then written anew lies there.
  std::fill_n(host_, group_.world_size() == 1 ? kState : count_, 0.0);
  if (has_device_values_) device_values_ = {};
  has_device_values_ = false;
  host_[0] = samples / nominal_samples;
  host_[1] = samples;
  ++own_passes_;
}

void ControlVector::use_slot(std::size_t slot) {
  if (slot >= kMaxMetrics) {
    throw std::invalid_argument("[ddp] metric slot " + std::to_string(slot) + " is not below " +
                                std::to_string(kMaxMetrics));
  }
  used_slots_ = std::max(used_slots_, slot + 1);
}

void ControlVector::add_metric(std::size_t slot, double value, double weight) {
  use_slot(slot);
  if (weight == 0) return;  // an empty batch may have a NaN for its mean
  if (device_values_[slot].count != 0) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) +
                                " has a value on the device, which must be its only one");
  }
  host_[sum_index(slot)] += value * weight;
  host_[weight_index(slot)] += weight;
}

void ControlVector::add_metric(std::size_t slot, const Buffer& value, double weight) {
  use_slot(slot);
  const bool is_taken = host_[weight_index(slot)] != 0;
  if (value.count != 1 || value.device != group_.device() || is_taken) {
    throw std::invalid_argument("[ddp] metric " + std::to_string(slot) + ": " + to_string(value) +
                                " is not the step's only value, one element on " +
                                to_string(group_.device()));
  }
  if (weight == 0) return;
  device_values_[slot] = value;
  has_device_values_ = true;
  host_[weight_index(slot)] = weight;
}

void ControlVector::write(const RankState& own) {
  host_[kState] = own.is_active ? 1 : 0;
  host_[kState + 1] = own.asks_to_stop ? 1 : 0;
  write_squared(kPasses, own_passes_);
  for (std::size_t slot = 0; slot < kMaxVotes; ++slot) host_[kVotes + slot] = own.votes[slot];
  write_fingerprint(own.fingerprint);
  double* rank = host_ + rank_index(group_.rank());
  rank[0] = own.times.work_seconds;
  rank[1] = own.times.data_seconds;
  rank[2] = own.times.is_idle ? 1 : 0;
  rank[3] = host_[kState];
  rank[4] = static_cast<double>(own.epoch);
}

void ControlVector::write_squared(std::size_t index, double number) {
  host_[index] = number;
  host_[index + 1] = number * number;
}

void ControlVector::write_fingerprint(std::uint64_t fingerprint) {
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto piece = static_cast<double>((fingerprint >> (16 * i)) & 0xffffU);
    write_squared(kFingerprint + 2 * i, piece);
  }
}

// What the host knows goes to the device; what the device knows joins it there.
void ControlVector::collect(Stream stream) {
  const cu::DeviceGuard guard(group_.device());
  if (group_.device().is_cuda()) {
    cu::copy_async(memory_.data(), host_, buffer().size_bytes(), stream);
    outgoing_[turn_].sent.record(stream);
  }
  for (std::size_t slot = 0; slot < kMaxMetrics; ++slot) {
    if (device_values_[slot].count == 0) continue;
    const Buffer sum = buffer().slice(sum_index(slot), 1);
    const Buffer weight = buffer().slice(weight_index(slot), 1);
    cast(device_values_[slot], sum, stream);
    scale(sum, static_cast<const double*>(weight.data), stream);
  }
}

// The place that the step's sum goes to, which counts from wait() on. Waits only for a device that
// is kArrivals steps behind.
ControlVector::Arrival& ControlVector::next_arrival() {
  count_arrived(arrived_steps_ - counted_steps_ == kArrivals ? Wait::kYes : Wait::kNo);
  return arrivals_[arrived_steps_ % kArrivals];
}

void ControlVector::count_arrived(Wait wait) {
  for (; counted_steps_ < arrived_steps_; ++counted_steps_) {
    const Arrival& arrival = arrivals_[counted_steps_ % kArrivals];
    if (arrival.is_copied_by_device) {
      if (wait == Wait::kNo && !arrival.copied.done()) return;
      arrival.copied.synchronize();
    }
    check_passes(arrival);
    check_epochs(arrival.sums);
    count(arrival.sums);
  }
}

void ControlVector::count_pass(const double* sums, std::size_t slots) {
  last_.samples = sums[1];
  totals_.samples += last_.samples;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    last_.metrics[slot] = {sums[sum_index(slot)], sums[weight_index(slot)]};
    totals_.metrics[slot].sum += last_.metrics[slot].sum;
    totals_.metrics[slot].weight += last_.metrics[slot].weight;
  }
}

void ControlVector::count(const double* sums) {
  count_pass(sums, kMaxMetrics);
  last_.active_ranks = static_cast<int>(sums[kState]);
  last_.stop_requests = static_cast<int>(sums[kState + 1]);
  for (std::size_t slot = 0; slot < kMaxVotes; ++slot) {
    last_.votes[slot] = static_cast<int>(sums[kVotes + slot]);
  }
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const double* fields = sums + rank_index(rank);
    last_times_[static_cast<std::size_t>(rank)] = {fields[0], fields[1], fields[2] != 0};
    last_active_[static_cast<std::size_t>(rank)] = fields[3] != 0;
  }
  last_agree_ = fingerprints_agree(sums);
}

// No variance: world_size * (sum of squares) == (sum) squared. Integers below 2^64 as long as there
// are fewer than 2^16 ranks.
bool ControlVector::ranks_agree(const double* sums) const {
  const auto ranks = static_cast<std::uint64_t>(group_.world_size());
  const auto sum = static_cast<std::uint64_t>(sums[0]);
  return ranks * static_cast<std::uint64_t>(sums[1]) == sum * sum;
}

bool ControlVector::fingerprints_agree(const double* sums) const {
  for (std::size_t i = 0; i < kPieces; ++i) {
    if (!ranks_agree(sums + kFingerprint + 2 * i)) return false;
  }
  return true;
}

void ControlVector::carry(Stream stream) {
  collect(stream);
  if (carried_.data() == nullptr) carried_ = group_.allocate(kState * sizeof(double));
  if (has_carried_) {
    reduce(pass(), carried(), ReduceOp::kSum, stream);
  } else {
    copy(pass(), carried(), stream);
  }
  has_carried_ = true;
}

void ControlVector::check_passes(const Arrival& arrival) const {
  if (ranks_agree(arrival.sums + kPasses)) return;
  work_.wait(to_host_.view());  // of a broken group these are no sums: that is the error
  throw MismatchError("[ddp] ranks differ in the backward passes of a step: rank " +
                      std::to_string(group_.rank()) + " made " +
                      std::to_string(arrival.own_passes) + ", all " +
                      std::to_string(group_.world_size()) + " ranks together " +
                      std::to_string(static_cast<int>(arrival.sums[kPasses])));
}

void ControlVector::check_epochs(const double* sums) const {
  std::optional<int> first;  // of the ranks that are active
  std::string others;        // that are in another epoch
  const auto is_active = [&](int rank) { return sums[rank_index(rank) + 3] != 0; };
  const auto epoch = [&](int rank) { return sums[rank_index(rank) + 4]; };
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    if (!is_active(rank)) continue;
    if (!first) first = rank;
    if (epoch(rank) != epoch(*first)) others += ", " + describe_epoch(rank, epoch(rank));
  }
  if (others.empty()) return;
  work_.wait(to_host_.view());  // as in check_passes()
  throw MismatchError("[ddp] ranks are in different epochs of their data, whose samples overlap: " +
                      describe_epoch(*first, epoch(*first)) + others +
                      " (set_epoch is for all ranks, or for none)");
}

void ControlVector::launch(const RankState& own, Stream producer) {
  write(own);
  collect(producer);
  if (has_carried_) reduce(carried(), pass(), ReduceOp::kSum, producer);
  has_carried_ = false;
  work_ = group_.all_reduce(buffer(), ReduceOp::kSum, producer);
  if (group_.device().is_cuda()) send_to_host();
}

// On a stream of its own: the host has it long before backward ends. The first element, which
// wait() changes, is not read.
void ControlVector::send_to_host() {
  Arrival& arrival = next_arrival();
  work_.wait(to_host_.view());
  cu::copy_async(arrival.sums + 1, static_cast<const double*>(memory_.data()) + 1,
                 (count_ - 1) * sizeof(double), to_host_.view());
  arrival.copied.record(to_host_.view());
}

void ControlVector::wait(Stream consumer) {
  work_.wait(consumer);
  Arrival& arrival = next_arrival();
  if (group_.device().is_cuda()) {
    arrival.copied.make_wait(consumer);  // before the next step writes to the vector
  } else {
    std::copy_n(host_, count_, arrival.sums);
  }
  arrive(group_.device().is_cuda());
  reciprocal(buffer().slice(0, 1), consumer);
}

void ControlVector::arrive(bool is_copied_by_device) {
  Arrival& arrival = arrivals_[arrived_steps_++ % kArrivals];
  arrival.own_passes = std::exchange(own_passes_, 0);
  arrival.is_copied_by_device = is_copied_by_device;
  if (!is_copied_by_device) count_arrived(Wait::kYes);
}

void ControlVector::settle(const RankState& own, Stream stream) {
  if (!has_device_values_ || !group_.device().is_cuda()) {
    if (has_device_values_) collect(stream);
    return count_own(own);
  }
  write(own);
  collect(stream);
  Arrival& arrival = next_arrival();
  const cu::DeviceGuard guard(group_.device());
  cu::copy_async(arrival.sums, memory_.data(), buffer().size_bytes(), stream);
  arrival.copied.record(stream);
  arrive(true);
}

// Alone, and all is known on the host: no more is touched than was used, since a step's kernels
// leave none of it in the caches. Steps before this one may still be on their way.
void ControlVector::count_own(const RankState& own) {
  count_arrived(Wait::kYes);
  ++arrived_steps_;
  ++counted_steps_;
  own_passes_ = 0;
  count_pass(host_, used_slots_);
  last_.active_ranks = own.is_active ? 1 : 0;
  last_.stop_requests = own.asks_to_stop ? 1 : 0;
  std::copy(own.votes.begin(), own.votes.end(), last_.votes.begin());
  last_active_[0] = own.is_active ? 1 : 0;
}

const StepSummary& ControlVector::read() {
  count_arrived(Wait::kYes);
  return last_;
}

const StepSummary& ControlVector::latest() {
  count_arrived(Wait::kNo);
  return last_;
}

std::span<const RankTimes> ControlVector::latest_times() {
  count_arrived(Wait::kNo);
  return last_times_;
}

bool ControlVector::is_active(int rank) {
  count_arrived(Wait::kYes);
  return last_active_.at(static_cast<std::size_t>(rank)) != 0;
}

bool ControlVector::replicas_agree() {
  count_arrived(Wait::kYes);
  return last_agree_;
}

StepSummary ControlVector::take_totals() {
  count_arrived(Wait::kYes);
  return std::exchange(totals_, {});
}

}  // namespace ddp
