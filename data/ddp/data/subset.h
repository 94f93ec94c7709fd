// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/data/dataset.h"

namespace ddp {

// Chosen samples of another dataset, which must outlive this one. Sample i is the other dataset's
// sample indices[i], with the same random choices; an index may occur more than once.
class Subset final : public Dataset {
 public:
  // Throws std::invalid_argument if an index is not in the dataset.
  Subset(const Dataset& dataset, std::vector<std::int64_t> indices);
  Subset(const Dataset&&, std::vector<std::int64_t>) = delete;  // it would be gone at once

  [[nodiscard]] const std::vector<std::int64_t>& indices() const { return indices_; }

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] std::span<const std::int64_t> input_shape() const override;
  [[nodiscard]] std::span<const std::int64_t> label_shape() const override;
  [[nodiscard]] DType label_dtype(DType input_dtype) const override;
  void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
            const Buffer& label) const override;

 private:
  const Dataset* dataset_;
  std::vector<std::int64_t> indices_;
};

// Distributes a dataset's samples at random over disjoint subsets, exactly as
// torch.utils.data.random_split(dataset, fractions, generator seeded with `seed`) does. Depends
// only on (size, fractions, seed), so all ranks get the same subsets.
//
// A subset gets floor(size * fraction) samples; the remaining ones go one each to the first
// subsets. If the sum of the fractions is below 1 (by more than rounding), only floor(size * sum)
// samples are distributed. Throws std::invalid_argument if a fraction is not in [0, 1] or the sum
// is above 1.
[[nodiscard]] std::vector<Subset> split(const Dataset& dataset,
                                        const std::vector<double>& fractions, std::uint64_t seed);
std::vector<Subset> split(const Dataset&&, const std::vector<double>&, std::uint64_t) = delete;

// The sizes of the subsets that split() would make.
[[nodiscard]] std::vector<std::int64_t> split_sizes(std::int64_t size,
                                                    const std::vector<double>& fractions);

}  // namespace ddp
