// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// Where a job stands in its data: `consumed` samples of epoch `epoch`, counted over all ranks. With
// the sampler's seed it is all that a checkpoint has to hold.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The samples of one epoch (or of what is left of it), cut into steps and dealt out: the k-th
// sample of a step's global batch goes to rank k mod world_size. Every rank has equally many steps
// and knows every rank's share of each, so nobody has to ask. Where a global batch is smaller than
// world_size, the last ranks have an empty batch.
//
// A value that never changes: threads may share it. Holds 8 bytes for each sample of the dataset.
class EpochPlan {
 public:
  // Positions [first, first + count) of the epoch's order are dealt out. Past the end of the data
  // the order starts again, which is how a sampler pads.
  struct Layout {
    std::int64_t epoch = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t global_batch_size = 1;
    int world_size = 1;
    int rank = 0;
  };

  // order[p] is the sample at position p; it is not empty unless count is 0.
  EpochPlan(const Layout& layout, std::vector<std::int64_t> order);

  // The same plan without the last step if its global batch is smaller than the others; PyTorch's
  // DataLoader(drop_last=True).
  [[nodiscard]] EpochPlan whole_batches() &&;

  [[nodiscard]] std::int64_t epoch() const { return layout_.epoch; }
  [[nodiscard]] int world_size() const { return layout_.world_size; }
  [[nodiscard]] int rank() const { return layout_.rank; }
  [[nodiscard]] std::int64_t steps() const;

  // Samples of a step: on all ranks together, on one of them, on this one.
  // A step outside 0 .. steps()-1 or a rank outside the world is std::invalid_argument.
  [[nodiscard]] std::int64_t global_count(std::int64_t step) const;
  [[nodiscard]] std::int64_t count(std::int64_t step, int rank) const;
  [[nodiscard]] std::int64_t count(std::int64_t step) const { return count(step, layout_.rank); }

  // This rank's samples in a step, as indices into the dataset; copy_batch writes them to where the
  // caller has room for exactly count(step) of them (else std::invalid_argument).
  [[nodiscard]] std::vector<std::int64_t> batch(std::int64_t step) const;
  void copy_batch(std::int64_t step, std::span<std::int64_t> samples) const;

  // This rank's samples in all steps, one after the other.
  [[nodiscard]] std::vector<std::int64_t> indices() const;

  // Where the job stands before `step`; position(steps()) is the start of the next epoch.
  [[nodiscard]] DataPosition position(std::int64_t step) const;

 private:
  [[nodiscard]] std::int64_t sample_at(std::int64_t position) const;
  void check_step(std::int64_t step) const;

  Layout layout_;
  std::vector<std::int64_t> order_;
};

}  // namespace ddp
