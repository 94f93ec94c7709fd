// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

// A job's position in its data: `consumed` samples of epoch `epoch`, counted over all ranks.
// Together with the sampler's seed it is all that a checkpoint has to store.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The samples of one epoch, or of the rest of one, cut into steps and distributed over ranks: the
// k-th sample of a step's global batch goes to rank k mod world_size. Every rank has the same
// number of steps and knows the other ranks' shares, without communication. If a global batch is
// smaller than world_size, the last ranks have an empty batch.
//
// Immutable, so threads may share it. Holds 8 bytes for each sample of the dataset.
class EpochPlan {
 public:
  // The plan distributes positions [first, first + count) of the epoch's order. After the end of
  // the data the order starts again; this is how a sampler pads.
  struct Layout {
    std::int64_t epoch = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t global_batch_size = 1;
    int world_size = 1;
    int rank = 0;
  };

  // order[p] is the sample at position p. std::invalid_argument if it is empty although count is
  // not 0, if a number of the layout is negative, the batch empty or the rank outside the world.
  EpochPlan(const Layout& layout, std::vector<std::int64_t> order);

  // The same plan without the last step if its global batch is smaller than the others, as
  // PyTorch's DataLoader(drop_last=True).
  [[nodiscard]] EpochPlan whole_batches() &&;

  [[nodiscard]] std::int64_t epoch() const { return layout_.epoch; }
  [[nodiscard]] int world_size() const { return layout_.world_size; }
  [[nodiscard]] int rank() const { return layout_.rank; }
  [[nodiscard]] std::int64_t steps() const;

  // The number of samples of a step: on all ranks together, on one rank, on this rank.
  // std::invalid_argument for a step outside 0 .. steps()-1 or a rank outside the world.
  [[nodiscard]] std::int64_t global_count(std::int64_t step) const;
  [[nodiscard]] std::int64_t count(std::int64_t step, int rank) const;
  [[nodiscard]] std::int64_t count(std::int64_t step) const { return count(step, layout_.rank); }

  // A number that ranks have in common if their plans distribute one order of one dataset in the
  // same global batches; with another size, seed or batch it is another one, but for chance. 0 if
  // the plan is for one rank, which shares nothing.
  [[nodiscard]] std::uint32_t fingerprint() const;

  // This rank's samples in a step, as indices into the dataset. copy_batch writes them into
  // `samples`, which must have exactly count(step) elements, otherwise std::invalid_argument.
  [[nodiscard]] std::vector<std::int64_t> batch(std::int64_t step) const;
  void copy_batch(std::int64_t step, std::span<std::int64_t> samples) const;

  // This rank's samples in all steps, in order.
  [[nodiscard]] std::vector<std::int64_t> indices() const;

  // The job's position before `step`; position(steps()) is the start of the next epoch.
  [[nodiscard]] DataPosition position(std::int64_t step) const;

 private:
  [[nodiscard]] std::int64_t sample_at(std::int64_t position) const;
  void check_step(std::int64_t step) const;

  Layout layout_;
  std::vector<std::int64_t> order_;
  std::uint64_t order_hash_ = 0;
};

}  // namespace ddp
