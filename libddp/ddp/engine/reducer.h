// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/gradient_hook.h"
#include "ddp/engine/pass.h"
#include "ddp/engine/statistics/step_recorder.h"

namespace ddp {

// Owns the flat gradient buckets and sums them over ranks while backward runs.
//
// A bucket is launched when all its gradients are ready and all buckets before it have been
// launched. All ranks therefore launch in the same order, whatever the order of their mark_ready
// calls. The buckets' addresses never change.
//
// A gradient is ready at its first mark_ready of a pass, and a second mark_ready is an error. After
// learn_uses() this differs: the next pass, which runs without overlap, counts how often each
// gradient is marked. In later passes a gradient is ready when it has been marked that often.
// Gradients that were never marked are not waited for; their places in the buckets are zeroed.
//
// In a world of one, the reducer only tracks which gradients are ready; it launches nothing.
//
// mark_ready and wait do not allocate and take no lock of the engine's. They may be called from any
// thread, but not concurrently.
class Reducer {
 public:
  // Called in each step just before bucket b is launched, with the bucket's stream. What this rank
  // adds to the sum is complete then, on that stream, but for the tail of the last bucket.
  using BeforeLaunch = std::function<void(std::size_t b, Stream)>;

  struct Options {
    const BucketOptions& buckets;
    const GradientHookFactory& make_hook;
    std::size_t tail_count = 0;
    // The caller's memory for all gradients, packed densely. If it has none, the group allocates
    // the memory.
    Buffer flat_gradients = {};
    bool record_times = false;
    // What the sums of buckets that divides() names are divided by; an operation before the first
    // bucket's computes it. Null: they stay sums.
    const double* divisor = nullptr;
  };

  Reducer(ProcessGroup& group, std::span<const GradientSpec> gradients, const Options& options,
          BeforeLaunch before_launch);
  // An exception may destroy a reducer while buckets are being reduced: waits for that, or breaks
  // the groups that do it, before the buckets are freed.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Sets the label under which the group's recorder lists the operations of each bucket.
  void set_labels(std::span<const FlightRecorder::Label> labels);

  // Null unless times are recorded.
  [[nodiscard]] StepRecorder* recorder() { return recorder_.get(); }
  // Null if there is no hook.
  [[nodiscard]] const GradientHook* hook() const { return hook_.get(); }

  // For ScopedIssuer.
  [[nodiscard]] std::uint8_t issuer() const { return issuer_; }

  [[nodiscard]] std::size_t gradient_count() const { return gradients_.size(); }
  [[nodiscard]] const BucketLayout& layout() const { return layout_; }
  [[nodiscard]] Packing packing() const { return packing_; }
  // The memory of gradient i in its bucket; valid as long as the reducer exists.
  [[nodiscard]] Buffer gradient(std::size_t i) const;
  [[nodiscard]] Buffer bucket(std::size_t b) const;

  // Makes the next pass count how often each gradient is marked.
  void learn_uses();
  [[nodiscard]] bool is_learning() const { return uses_ == Uses::kLearning; }

  // Whether the collective of bucket b divides, too. It does so on the CPU, where a pass of our own
  // after it would be hidden behind nothing; but not if there are marks in the tail, nor in a hook.
  [[nodiscard]] bool divides(std::size_t b) const {
    const bool has_tail = layout_.tail_count > 0 && b + 1 == buckets_.size();
    return divisor_ != nullptr && hook_ == nullptr && !has_tail;
  }

  // The elements behind the gradients of the last bucket.
  [[nodiscard]] Buffer tail() const;

  // Opens a backward pass. If it has no samples, what it marks does not count as used; if its step
  // has had none so far, each bucket is zeroed before its launch, or without one at the end of
  // backward.
  void begin(const Pass& pass);

  // Whether gradient i may be marked once more in this pass.
  [[nodiscard]] bool accepts(std::size_t i) const {
    return uses_ == Uses::kLearning || gradients_.at(i).marks < gradients_[i].expected;
  }
  // Says that gradient i is final, or has been used once more, when the work that `stream` holds
  // now has run. Throws std::logic_error unless accepts(i).
  void mark_ready(std::size_t i, Stream stream);
  // True if gradient i has had all its marks of this pass; in a pass that learns, at least one.
  [[nodiscard]] bool is_ready(std::size_t i) const {
    return gradients_.at(i).marks > 0 && gradients_[i].marks >= gradients_[i].expected;
  }
  // True if every gradient is ready.
  [[nodiscard]] bool are_all_ready() const { return order_.size() == gradients_.size(); }
  // True if gradient i was marked in this pass, perhaps less often than expected.
  [[nodiscard]] bool is_marked(std::size_t i) const { return gradients_.at(i).marks > 0; }
  // True if gradient i must be marked in each pass.
  [[nodiscard]] bool is_expected(std::size_t i) const { return gradients_.at(i).expected > 0; }
  // True in a pass whose buckets hold gradients of this step: earlier passes have written or zeroed
  // all of them.
  [[nodiscard]] bool is_held() const { return !pass_.begins_step; }
  // True if gradient i was marked in a pass of this step that has samples. Once uses have been
  // learned, also true for every gradient that is expected.
  [[nodiscard]] bool is_used(std::size_t i) const {
    const GradientState& gradient = gradients_.at(i);
    return gradient.is_used || (uses_ == Uses::kLearned && gradient.expected > 0);
  }
  // The gradients in the order in which they became ready in the last pass that has been waited
  // for.
  [[nodiscard]] std::span<const std::size_t> ready_order() const { return ready_order_; }

  // Ends backward: no gradient of this pass will be marked any more. Zeroes the gradients that were
  // not marked and launches the remaining buckets, if the pass reduces.
  void end_backward(Stream consumer);
  // Call after end_backward(). Orders `consumer` behind all sums.
  void wait(Stream consumer);
  // Orders the streams that wrote gradients in this pass behind `stream`, so that the next pass may
  // add to them there. Records nothing if all of them are `stream`. If there are none, the host
  // waits for `stream`, since nothing tells which streams the next pass will use.
  void order_producers_behind(Stream stream);
  // Blocks the host until all sums of the last pass are done.
  void wait_host() const;
  // For the end of an engine, before its other memory is freed: on CUDA waits for the sums as
  // ProcessGroup::release() does, because the device is not idle, without which pinned memory
  // cannot be freed, before a late rank has come.
  void release() noexcept;

  [[nodiscard]] std::uint64_t launches() const { return launch_count_; }

 private:
  enum class Uses : std::uint8_t { kOnce, kLearning, kLearned };

  // The fields that a step touches are kept together for each gradient and each bucket, because the
  // model's kernels leave none of them in the caches.
  struct GradientState {
    std::uint32_t bucket = 0;
    std::uint32_t marks = 0;     // in this pass
    std::uint32_t expected = 1;  // marks that each pass must have
    bool is_used = false;        // marked in a pass of this step that has samples
  };
  struct BucketState {
    std::uint32_t missing = 0;  // gradients that are not ready
    bool has_producer = false;
    Stream producer;  // runs after all ready gradients of the bucket are written
  };
  struct BucketLaunch {
    cu::Event joined;  // CUDA: orders one producer behind another
    Work work;
    FlightRecorder::Label label = 0;
    std::string span_name;  // shown by profilers
  };

  // This rank has nothing to add to the sums.
  [[nodiscard]] bool adds_zeros() const { return pass_.step_samples == 0; }
  [[nodiscard]] bool reduces() const { return communicates_ && pass_.reduces; }
  [[nodiscard]] GradientBucket describe(std::size_t b) const;
  void join_producer(std::size_t b, Stream stream);
  void note_producer(Stream stream);
  void launch_ready(Stream stream);
  void launch(std::size_t b);
  Work all_reduce(std::size_t b, Stream producer);
  void launch_rest(Stream consumer);
  void finish_bucket(std::size_t b, Stream consumer);
  void release_from_hook() const;
  void close_without_launch(Stream consumer);
  void zero_missing(std::size_t b, Stream stream) const;
  void remember_uses();

  ProcessGroup& group_;
  std::uint8_t issuer_;
  Packing packing_;
  BucketLayout layout_;
  BeforeLaunch before_launch_;
  Allocation memory_;
  std::unique_ptr<GradientHook> hook_;  // ends before the memory in which its groups reduce
  std::vector<BucketLaunch> launches_;
  cu::Event held_;                   // CUDA: orders producers behind the end of a pass that is held
  std::vector<std::size_t> counts_;  // elements, by parameter
  std::vector<std::size_t> ready_order_;
  std::uint64_t launch_count_ = 0;
  // What each mark touches:
  std::vector<GradientState> gradients_;
  std::vector<BucketState> buckets_;
  std::vector<Stream> producers_;   // of this pass, each once
  std::vector<std::size_t> order_;  // gradients that became ready in this pass, in that order
  Uses uses_ = Uses::kOnce;
  Pass pass_;
  bool communicates_;
  bool overlap_;
  bool is_reducing_ = false;  // buckets were launched that wait() has not finished
  const double* divisor_;
  std::size_t next_ = 0;                    // the bucket to launch next
  std::unique_ptr<StepRecorder> recorder_;  // null unless times are recorded
};

}  // namespace ddp
