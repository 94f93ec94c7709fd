// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/control_fields.h"
#include "ddp/engine/control_ledger.h"
#include "ddp/engine/pinned_ring.h"
#include "ddp/engine/statistics/step_stopwatch.h"
#include "ddp/engine/step_arrivals.h"

namespace ddp {

// The few numbers that ranks add up in each step (ControlFields). They are reduced on their own,
// beside the first bucket, in float64, so that neither the dtype of the gradients nor a gradient
// hook affects them.
//
// The sum of the first element is the divisor of the gradients. It is replaced by its reciprocal in
// place (on CUDA by the device), so that the host never has to know it. All other sums are copied
// to the host. On CUDA the host runs ahead of the device, so the ledger counts them when they have
// arrived.
//
// Counting throws MismatchError if ranks made different numbers of backward passes in a step, are
// in different epochs or read different plans: on the CPU in wait(), on CUDA in the first call that
// finds the sums arrived.
class ControlVector {
 public:
  // `after_count`, if there is one, is called whenever a step has been counted; with several ranks
  // only.
  using AfterCount = std::function<void(const ControlLedger&)>;
  explicit ControlVector(ProcessGroup& group, AfterCount after_count = {});

  // Starts a pass: its numbers are 0 except this rank's samples, which are also counted in `unit`.
  void reset(double samples, double unit);
  void add_metric(std::size_t slot, double value, double weight);
  // The same for a value on the group's device: one element, which is read at launch().
  void add_metric(std::size_t slot, const Buffer& value, double weight);

  // Sets the numbers of this pass aside; the next launch() adds them to those of later passes.
  void carry(Stream stream);
  // Sums the vectors of all ranks, asynchronously, after the work that `producer` holds now.
  void launch(const RankState& own_state, Stream producer);
  // Orders `consumer` behind the sum.
  void wait(Stream consumer);
  // Replaces launch() and wait() in a world of one whose gradients are not divided. It costs
  // nothing unless a metric is on the device.
  void finish_alone(const RankState& own_state, Stream stream);

  // (sum of samples) / unit, in the group's memory. Valid for the group's operations behind
  // launch(), until wait().
  [[nodiscard]] const double* divisor() const { return static_cast<const double*>(memory_.data()); }
  // Its reciprocal, or 0 if there were no samples; in the same place. Valid after wait(), for work
  // on the consumer stream.
  [[nodiscard]] const double* gradient_scale() const {
    return static_cast<const double*>(memory_.data());
  }

  // The ledger with all steps so far. Blocks until their sums have arrived.
  [[nodiscard]] ControlLedger& complete_ledger();
  // The ledger with only those steps whose sums have arrived. Does not block.
  [[nodiscard]] const ControlLedger& arrived_ledger();

 private:
  // StepStopwatch lets the host run no further ahead, unless a step has several passes.
  static constexpr std::size_t kOutgoing = StepStopwatch::kLongestLag + 1;
  using Wait = StepArrivals::Wait;

  [[nodiscard]] Buffer buffer() const;
  [[nodiscard]] Buffer pass() const;
  [[nodiscard]] Buffer carried() const;
  [[nodiscard]] ControlFields own() { return {host_, group_.world_size()}; }
  void use_slot(std::size_t slot, double weight);
  void collect(Stream stream);
  void copy_to_host(Stream stream);
  bool count_next(Wait wait);
  void count_arrived(Wait wait);
  void count(const ControlFields& sums);
  void count_alone(const RankState& own_state);

  // First what each step touches: the model's kernels leave none of it in the caches.
  ProcessGroup& group_;
  double* host_ = nullptr;  // this rank's own numbers; on the CPU this is `memory_` itself
  bool is_cuda_;
  bool has_device_values_ = false;
  bool has_carried_ = false;
  int own_passes_ = 0;          // since the last launch
  std::size_t used_slots_ = 0;  // highest metric slot used so far, plus 1
  ControlLedger ledger_;
  AfterCount after_count_;
  Work work_;
  std::size_t count_;        // elements of the vector
  Allocation memory_;        // of the group's kind
  Allocation carried_;       // likewise, allocated by the first carry(): sums of earlier passes
  StepArrivals arrivals_;    // CUDA
  PinnedRing outgoing_;      // CUDA
  cu::OwnedStream to_host_;  // CUDA
  std::array<Buffer, kMaxMetrics> device_values_;  // by metric slot; count 0 where there is none
};

}  // namespace ddp
