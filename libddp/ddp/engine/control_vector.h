// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/control_fields.h"
#include "ddp/engine/control_ledger.h"

namespace ddp {

// The few numbers that ranks add up in each step (ControlFields), reduced on their own beside the
// first bucket, in float64, untouched by the dtypes of gradients and by hooks.
//
// The sum of its first element is what gradients are divided by. It is turned into its reciprocal
// in place, on CUDA by the device, so that the host never has to know it. All other sums travel to
// the host, which on CUDA runs ahead, and are counted in the ledger when they have arrived.
//
// Counting throws MismatchError if ranks made different numbers of backward passes in a step, or
// are in different epochs: on the CPU in wait(), on CUDA in whichever call finds that the sums have
// arrived.
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
  void launch(const RankState& own_state, Stream producer);
  // Orders `consumer` behind the sum.
  void wait(Stream consumer);
  // In place of both, in a world of one: costs nothing unless a metric is on the device.
  void settle(const RankState& own_state, Stream stream);

  // n_ref / (sum of samples), in the group's memory; 0 if there were none. Valid after wait(), for
  // what runs on its consumer.
  [[nodiscard]] const double* gradient_scale() const {
    return static_cast<const double*>(memory_.data());
  }

  // All steps that wait() or settle() was called for: blocks the host until their sums are there.
  [[nodiscard]] ControlLedger& complete_ledger();
  // Those of them whose sums are there already.
  [[nodiscard]] const ControlLedger& arrived_ledger();

 private:
  static constexpr std::size_t kArrivals = 16;

  // What goes to the device, pinned. The host runs ahead: the copy of one step may still be under
  // way when it begins the next.
  struct Outgoing {
    Allocation memory;
    cu::Event sent;
  };

  // Where a step's sums get to on the host.
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
  [[nodiscard]] ControlFields own() { return {host_, group_.world_size()}; }
  void use_slot(std::size_t slot);
  void collect(Stream stream);
  void send_to_host();
  Arrival& next_arrival();
  void arrive(bool is_copied_by_device);
  void count_arrived(Wait wait);
  void count(const Arrival& arrival);
  void count_alone(const RankState& own_state);

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
  std::uint64_t arrived_steps_ = 0;  // for which wait() or settle() was called
  ControlLedger ledger_;
  std::array<Buffer, kMaxMetrics> device_values_;  // without memory where there is none
  bool has_device_values_ = false;
  std::size_t used_slots_ = 0;  // metrics that this rank has recorded so far
  int own_passes_ = 0;          // since the last launch
  Work work_;
};

}  // namespace ddp
