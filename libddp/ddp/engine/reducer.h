// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/step_recorder.h"

namespace ddp {

// Whether a backward pass ends with its gradients summed over ranks, or leaves them in the buckets
// for the next pass to add to.
enum class Reduction : std::uint8_t { kNow, kLater };

// Owns the flat gradient buckets and sums them over ranks while backward goes on.
//
// A bucket is launched when all its gradients are ready and all buckets before it were launched:
// one fixed order on every rank, whatever the order of mark_ready. Addresses never move.
//
// In a world of one it only keeps account: nothing is launched.
//
// mark_ready and wait touch no heap and take no lock of ours; they may come from any thread, one at
// a time.
class Reducer {
 public:
  // Runs in each step just before its first bucket is launched, with that bucket's stream.
  using BeforeFirst = std::function<void(Stream)>;

  Reducer(ProcessGroup& group, std::span<const GradientSpec> gradients,
          const BucketOptions& options, BeforeFirst before_first);

  // What the buckets' operations are for, in the group's recorder.
  void set_labels(std::vector<FlightRecorder::Label> labels) { labels_ = std::move(labels); }

  // Takes the times of each step from now on.
  void start_recording() { recorder_.emplace(group_, layout_); }
  // Null without recording.
  [[nodiscard]] StepRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

  [[nodiscard]] std::size_t gradient_count() const { return layout_.slots.size(); }
  [[nodiscard]] const BucketLayout& layout() const { return layout_; }
  // Where gradient i is written; valid as long as the reducer.
  [[nodiscard]] Buffer gradient(std::size_t i) const;
  [[nodiscard]] Buffer bucket(std::size_t b) const;

  // Opens a backward pass.
  void begin(Reduction reduction = Reduction::kNow);

  // Gradient i is final once what `stream` holds now has run. std::logic_error if it was marked
  // in this step already.
  void mark_ready(std::size_t i, Stream stream);
  [[nodiscard]] bool is_ready(std::size_t i) const { return ready_.at(i) != 0; }
  // Gradient i was ready in a pass since the last that reduced.
  [[nodiscard]] bool is_held(std::size_t i) const { return held_.at(i) != 0; }

  // Launches what is left, zeroed where no gradient came, then orders `consumer` behind all sums. A
  // pass that reduces later ends here, too, but launches nothing.
  void wait(Stream consumer);

  // Fills all buckets with zeros; later passes may add to them.
  void hold_zeros(Stream stream);

  // Zeroes a bucket before its launch: this rank has nothing to add in this step.
  void contribute_zeros() { zeros_ = true; }
  // Multiplies buckets by *factor, in the group's kind of memory, before their launch.
  void contribute_scaled(const double* factor) { factor_ = factor; }

  [[nodiscard]] std::uint64_t launches() const { return launches_; }

 private:
  struct BucketState {
    std::size_t missing = 0;  // gradients not ready
    bool has_producer = false;
    Stream producer;   // holds every gradient that is ready
    cu::Event joined;  // CUDA: orders one producer behind another
    Work work;
  };

  void join_producer(BucketState& state, Stream stream) const;
  void launch_ready();
  void launch(std::size_t b);
  void finish(Stream consumer);
  void join_all(Stream consumer);
  void zero_missing(std::size_t b, Stream stream) const;

  ProcessGroup& group_;
  BucketLayout layout_;
  BeforeFirst before_first_;
  bool communicates_;
  bool overlap_;
  Allocation memory_;
  std::vector<BucketState> states_;
  std::vector<FlightRecorder::Label> labels_;  // by bucket; 0 unless they are set
  std::vector<std::size_t> counts_;            // elements, by parameter
  std::vector<std::uint8_t> ready_;            // by parameter, in this pass
  std::vector<std::uint8_t> held_;             // by parameter, in the passes before
  Reduction reduction_ = Reduction::kNow;
  std::size_t next_ = 0;  // the bucket to launch next
  bool zeros_ = false;
  const double* factor_ = nullptr;
  std::optional<StepRecorder> recorder_;
  std::uint64_t launches_ = 0;
};

}  // namespace ddp
