// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/gradient_hook.h"
#include "ddp/engine/step_recorder.h"

namespace ddp {

// Whether a backward pass ends by summing its gradients over ranks, or leaves them in the buckets
// for the next pass to add to.
enum class Reduction : std::uint8_t { kNow, kLater };

// Owns the flat gradient buckets, and sums them over ranks while backward goes on.
//
// A bucket is launched when all its gradients are ready and all buckets before it are launched: one
// fixed order on every rank, whatever the order of mark_ready. Addresses never change.
//
// By default a gradient is ready at its first mark_ready of a pass, and a second one is an error.
// After learn_uses(), one pass without overlap counts how often each gradient is marked; from then
// on a gradient is ready at the last of that many marks. Gradients that were never marked are not
// waited for; their places are filled with zeros.
//
// In a world of one it only keeps this state and launches nothing.
//
// mark_ready and wait neither allocate nor take a lock of this class. They may come from any
// thread, one call at a time.
class Reducer {
 public:
  // Called in each step with a bucket's stream: just before the first bucket is launched, and just
  // before the last one, if it has a tail to be written.
  struct AtLaunch {
    std::function<void(Stream)> before_first;
    std::function<void(Stream)> before_last = {};
  };

  struct Options {
    const BucketOptions& buckets;
    const GradientHookFactory& make_hook;
    std::size_t tail_count = 0;
    // The caller's memory for all gradients, packed densely. Without it, the group allocates
    // memory.
    Buffer flat_gradients = {};
  };

  Reducer(ProcessGroup& group, std::span<const GradientSpec> gradients, const Options& options,
          AtLaunch at_launch);

  // Labels for the buckets' operations in the group's recorder.
  void set_labels(std::span<const FlightRecorder::Label> labels);

  // From now on records the times of each step.
  void start_recording() { recorder_.emplace(group_, layout_); }
  // Null without recording.
  [[nodiscard]] StepRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }
  // Null without a hook.
  [[nodiscard]] const GradientHook* hook() const { return hook_.get(); }

  [[nodiscard]] std::size_t gradient_count() const { return gradients_.size(); }
  [[nodiscard]] const BucketLayout& layout() const { return layout_; }
  // Where gradient i is written; valid as long as the reducer.
  [[nodiscard]] Buffer gradient(std::size_t i) const;
  [[nodiscard]] Buffer bucket(std::size_t b) const;

  // The next pass counts the uses of each gradient.
  void learn_uses();
  [[nodiscard]] bool is_learning() const { return uses_ == Uses::kLearning; }

  // The elements behind the gradients of the last bucket.
  [[nodiscard]] Buffer tail() const;

  // Opens a backward pass.
  void begin(Reduction reduction = Reduction::kNow);

  // Whether gradient i may be marked once more in this pass.
  [[nodiscard]] bool accepts(std::size_t i) const {
    return uses_ == Uses::kLearning || gradients_.at(i).marks < gradients_[i].expected;
  }
  // Gradient i is final, or used once more, when the work that `stream` holds now has run.
  // std::logic_error unless accepts(i).
  void mark_ready(std::size_t i, Stream stream);
  // True once all marks of this pass have come; in a learning pass, at least one.
  [[nodiscard]] bool is_ready(std::size_t i) const {
    return gradients_.at(i).marks > 0 && gradients_[i].marks >= gradients_[i].expected;
  }
  // True if every gradient is ready.
  [[nodiscard]] bool are_all_ready() const { return order_.size() == gradients_.size(); }
  // True if gradient i was marked, perhaps less often than expected.
  [[nodiscard]] bool is_marked(std::size_t i) const { return gradients_.at(i).marks > 0; }
  // True if gradient i is expected to be marked in each pass.
  [[nodiscard]] bool is_expected(std::size_t i) const { return gradients_.at(i).expected > 0; }
  // True if the buckets hold this step's gradients: earlier passes have written or zeroed them.
  [[nodiscard]] bool is_held() const { return is_held_; }
  // True if gradient i was marked in a pass of this step that has samples; after uses were learned,
  // true for every gradient that the learning pass marked.
  [[nodiscard]] bool is_used(std::size_t i) const {
    const GradientState& gradient = gradients_.at(i);
    if (uses_ == Uses::kLearned && gradient.expected > 0) return true;
    return !zeros_ && gradient.is_used;
  }
  // Gradients in the order in which they became ready in the last pass that was waited for.
  [[nodiscard]] std::span<const std::size_t> ready_order() const { return ready_order_; }

  // No more marks will come in this pass: zeroes the places without a gradient and launches the
  // remaining buckets. A pass that does not reduce launches nothing.
  void end_backward(Stream consumer);
  // After end_backward(): orders `consumer` behind all sums.
  void wait(Stream consumer);

  // Fills all buckets with zeros; later passes may add to them.
  void hold_zeros(Stream stream);

  // Zeroes each bucket before its launch: this rank has nothing to add in this step.
  void contribute_zeros() { zeros_ = true; }
  // Multiplies each bucket by *factor, in the group's kind of memory, before its launch.
  void contribute_scaled(const double* factor) { factor_ = factor; }

  [[nodiscard]] std::uint64_t launches() const { return launch_count_; }

 private:
  enum class Uses : std::uint8_t { kOnce, kLearning, kLearned };

  // The state that a step touches for each gradient and bucket is contiguous in memory, because the
  // model's kernels evict it from the caches.
  struct GradientState {
    std::uint32_t bucket = 0;
    std::uint32_t marks = 0;     // in this pass
    std::uint32_t expected = 1;  // marks in each pass
    bool is_used = false;        // in a pass of this step
  };
  struct BucketState {
    std::uint32_t missing = 0;  // gradients not ready
    bool has_producer = false;
    Stream producer;  // behind all ready gradients of the bucket
  };
  struct BucketLaunch {
    cu::Event joined;  // CUDA: orders one producer behind another
    Work work;
    FlightRecorder::Label label = 0;
    std::string span_name;  // in a profiler
  };

  [[nodiscard]] GradientBucket describe(std::size_t b) const;
  void join_producer(std::size_t b, Stream stream);
  void launch_ready(Stream stream);
  void launch(std::size_t b);
  void launch_rest(Stream consumer);
  void finish_bucket(std::size_t b, Stream consumer);
  void close_without_launch(Stream consumer);
  void zero_missing(std::size_t b, Stream stream) const;
  void remember_uses();

  ProcessGroup& group_;
  std::uint8_t issuer_;
  BucketLayout layout_;
  std::unique_ptr<GradientHook> hook_;
  AtLaunch at_launch_;
  bool communicates_;
  bool overlap_;
  Allocation memory_;
  std::vector<GradientState> gradients_;
  std::vector<BucketState> buckets_;
  std::vector<BucketLaunch> launches_;
  std::vector<std::size_t> counts_;  // elements, by parameter
  std::vector<std::size_t> order_;   // of this pass so far
  std::vector<std::size_t> ready_order_;
  Uses uses_ = Uses::kOnce;
  Reduction reduction_ = Reduction::kNow;
  std::size_t next_ = 0;  // the bucket to launch next
  bool is_held_ = false;
  bool zeros_ = false;
  const double* factor_ = nullptr;
  std::optional<StepRecorder> recorder_;
  std::uint64_t launch_count_ = 0;
};

}  // namespace ddp
