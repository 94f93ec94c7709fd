// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

inline constexpr std::size_t kMaxMetrics = 8;

// A step, or several together, as all ranks saw it.
struct StepSummary {
  struct Metric {
    double sum = 0;     // of value * weight
    double weight = 0;  // of weight
    // The weighted mean; 0 if nobody recorded anything.
    [[nodiscard]] double mean() const { return weight == 0 ? 0 : sum / weight; }
  };

  double samples = 0;
  std::array<Metric, kMaxMetrics> metrics = {};
};

// The few numbers that ranks add up in each step, reduced on their own beside the first bucket, in
// float64, untouched by gradient dtypes. Layout, all float64:
//
//   samples / n_ref, samples, backward passes, kMaxMetrics x (sum, weight)
//
// Summed gradients are divided by the sum of the first: gradient_scale() is its reciprocal, made in
// place, on CUDA by the device, so that the host never has to know it. The number of passes tells
// ranks that accumulate over different ones: MismatchError when the sum is counted, on the CPU in
// wait().
class ControlVector {
 public:
  explicit ControlVector(ProcessGroup& group);

  // Starts a step: everything is 0 but this rank's samples.
  void reset(double samples, double nominal_samples);
  void add_metric(std::size_t slot, double value, double weight);
  // The same for a value that is on the group's device: one element, read at launch().
  void add_metric(std::size_t slot, const Buffer& value, double weight);

  // Keeps what was recorded for the next launch(), which adds it to what comes after a reset().
  void carry(Stream stream);
  // Sums the vectors of all ranks; asynchronous, behind `producer`.
  void launch(Stream producer);
  // Orders `consumer` behind the sum.
  void wait(Stream consumer);
  // In place of both, in a world of one: costs nothing unless a metric is on the device.
  void settle(Stream stream);

  // n_ref / (sum of samples), in the group's memory; 0 if there were none. Valid after wait(), for
  // what runs on its consumer.
  [[nodiscard]] const double* gradient_scale() const {
    return static_cast<const double*>(memory_.data());
  }
  // The last sum that wait() or settle() was called for; blocks the host until it is there.
  [[nodiscard]] StepSummary read();
  // All sums since the last call of this together; blocks as read() does.
  [[nodiscard]] StepSummary take_totals();

 private:
  static constexpr std::size_t kPasses = 2;
  static constexpr std::size_t kCount = 3 + 2 * kMaxMetrics;
  static constexpr std::size_t kArrivals = 16;

  static constexpr std::size_t sum_index(std::size_t slot) { return 3 + 2 * slot; }
  static constexpr std::size_t weight_index(std::size_t slot) { return 4 + 2 * slot; }

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
  [[nodiscard]] Buffer carried() const;
  void check_slot(std::size_t slot) const;
  void collect(Stream stream);
  void copy_to_host(Stream stream);
  Arrival& next_arrival();
  void count_arrived(Wait wait);
  void check_passes(const Arrival& arrival) const;

  ProcessGroup& group_;
  Allocation memory_;   // kCount float64 of the group's kind
  Allocation carried_;  // likewise, from the first carry() on
  bool has_carried_ = false;
  std::array<Outgoing, 2> outgoing_;  // CUDA, used in turn
  std::size_t turn_ = 0;
  double* host_;        // this rank's numbers before the sum: `memory_` itself on the CPU
  Allocation arrived_;  // memory of the arrivals, used in turn
  std::array<Arrival, kArrivals> arrivals_;
  std::size_t arrived_steps_ = 0;  // handed out by next_arrival()
  std::size_t counted_steps_ = 0;
  StepSummary last_;
  StepSummary totals_;
  std::array<Buffer, kMaxMetrics> device_values_;  // without memory where there is none
  bool has_device_values_ = false;
  int own_passes_ = 0;  // since the last launch
  Work work_;
};

}  // namespace ddp
