// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/step_summary.h"

namespace ddp {

// What a rank says of itself once a step, however many backward passes that has.
struct RankState {
  bool is_active = true;
  std::int64_t epoch = 0;  // of its data
  bool asks_to_stop = false;
  std::array<bool, kMaxVotes> votes = {};
  std::uint64_t fingerprint = 0;  // of its replica; equal on all ranks if all is well
  RankTimes times = {};           // of the step before
};

// The few numbers that ranks add up in each step, reduced on their own beside the first bucket, in
// float64, untouched by gradient dtypes and hooks. Layout, all float64:
//
//   vector      := pass, state
//   pass        := samples / n_ref, samples, kMaxMetrics x (sum, weight)
//   state       := active ranks, stop requests, agreed, votes[kMaxVotes], fingerprint,
//                  rank[world_size]
//   agreed      := backward passes, their square
//   fingerprint := kPieces x (piece, piece squared)
//   rank        := work seconds, data seconds, idle, active, epoch     only that rank's are not 0
//
// Summed gradients are divided by the sum of the first: gradient_scale() is its reciprocal, made in
// place, on CUDA by the device, so that the host never has to know it. All ranks have the same
// number if, and only if, its variance over ranks is 0, which all of them see alike: that tells of
// ranks that accumulate over different numbers of passes (MismatchError when the sum is counted, on
// the CPU in wait()), and of fingerprints, cut into pieces of 16 bits, whose sums are exact. Epochs
// stand there by rank, so that a difference can be told in full: of ranks that are active.
class ControlVector {
 public:
  explicit ControlVector(ProcessGroup& group);

  // Starts a pass: everything is 0 but this rank's samples.
  void reset(double samples, double nominal_samples);
  void add_metric(std::size_t slot, double value, double weight);
  // The same for a value that is on the group's device: one element, read at launch().
  void add_metric(std::size_t slot, const Buffer& value, double weight);

  // Keeps the pass for the next launch(), which adds it to what comes after a reset().
  void carry(Stream stream);
  // Sums the vectors of all ranks; asynchronous, behind `producer`.
  void launch(const RankState& own, Stream producer);
  // Orders `consumer` behind the sum.
  void wait(Stream consumer);
  // In place of both, in a world of one: costs nothing unless a metric is on the device.
  void settle(const RankState& own, Stream stream);

  // n_ref / (sum of samples), in the group's memory; 0 if there were none. Valid after wait(), for
  // what runs on its consumer.
  [[nodiscard]] const double* gradient_scale() const {
    return static_cast<const double*>(memory_.data());
  }

  // The last sum that wait() or settle() was called for. This and what follows block the host until
  // it is there.
  [[nodiscard]] const StepSummary& read();
  // Of the same step.
  [[nodiscard]] bool is_active(int rank);
  // False if the ranks had different fingerprints in that step.
  [[nodiscard]] bool replicas_agree();
  // The newest sum that is there already, and how many have come.
  [[nodiscard]] const StepSummary& latest();
  // By rank; of a world of one, none.
  [[nodiscard]] std::span<const RankTimes> latest_times();
  [[nodiscard]] std::size_t steps_arrived() const { return counted_steps_; }
  // All sums since the last call of this together.
  [[nodiscard]] StepSummary take_totals();

 private:
  static constexpr std::size_t kMetrics = 2;
  static constexpr std::size_t kState = kMetrics + 2 * kMaxMetrics;
  static constexpr std::size_t kPasses = kState + 2;
  static constexpr std::size_t kVotes = kPasses + 2;
  static constexpr std::size_t kFingerprint = kVotes + kMaxVotes;
  static constexpr std::size_t kPieces = 4;
  static constexpr std::size_t kRanks = kFingerprint + 2 * kPieces;
  static constexpr std::size_t kRankFields = 5;
  static constexpr std::size_t kArrivals = 16;

  static constexpr std::size_t sum_index(std::size_t slot) { return kMetrics + 2 * slot; }
  static constexpr std::size_t weight_index(std::size_t slot) { return kMetrics + 2 * slot + 1; }
  static constexpr std::size_t rank_index(int rank) {
    return kRanks + kRankFields * static_cast<std::size_t>(rank);
  }

  // What goes to the device, pinned. The host runs ahead: the copy of one step may still be under
  // way when it begins the next.
  struct Outgoing {
    Allocation memory;
    cu::Event sent;
  };

  // Where a step's sum gets to on the host. The host runs ahead, and counts it when it is there.
  struct Arrival {
    double* sums = nullptr;
    cu::Event copied;  // CUDA
    bool is_copied_by_device = false;
    int own_passes = 0;  // of this rank
  };
  enum class Wait { kNo, kYes };

  [[nodiscard]] Buffer buffer() const;
  [[nodiscard]] Buffer pass() const;
  [[nodiscard]] Buffer carried() const;
  void use_slot(std::size_t slot);
  void write(const RankState& own);
  void write_squared(std::size_t index, double number);
  void write_fingerprint(std::uint64_t fingerprint);
  void collect(Stream stream);
  void send_to_host();
  Arrival& next_arrival();
  void arrive(bool is_copied_by_device);
  void count_arrived(Wait wait);
  void count(const double* sums);
  void count_pass(const double* sums, std::size_t slots);
  void count_own(const RankState& own);
  void check_passes(const Arrival& arrival) const;
  void check_epochs(const double* sums) const;
  [[nodiscard]] bool ranks_agree(const double* sums) const;
  [[nodiscard]] bool fingerprints_agree(const double* sums) const;

  ProcessGroup& group_;
  std::size_t count_;   // elements of the vector
  Allocation memory_;   // of the group's kind
  Allocation carried_;  // likewise, from the first carry() on: sums of passes
  bool has_carried_ = false;
  std::array<Outgoing, 2> outgoing_;  // CUDA, used in turn
  std::size_t turn_ = 0;
  cu::OwnedStream to_host_;  // CUDA
  double* host_;             // this rank's numbers before the sum: `memory_` itself on the CPU
  Allocation arrived_;       // memory of the arrivals, used in turn
  std::array<Arrival, kArrivals> arrivals_;
  std::size_t arrived_steps_ = 0;
  std::size_t counted_steps_ = 0;
  StepSummary last_;
  std::vector<RankTimes> last_times_;
  std::vector<std::uint8_t> last_active_;  // by rank
  bool last_agree_ = true;
  StepSummary totals_;
  std::array<Buffer, kMaxMetrics> device_values_;  // without memory where there is none
  bool has_device_values_ = false;
  std::size_t used_slots_ = 0;  // metrics that this rank has recorded so far
  int own_passes_ = 0;          // since the last launch
  Work work_;
};

}  // namespace ddp
