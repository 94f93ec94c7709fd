// SPDX-License-Identifier: MIT
#include "ddp/data/sampled_fingerprint.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddp/base/allocation.h"
#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/data/require.h"

namespace ddp {
namespace {

// The memory of one input or label.
class SampleMemory {
 public:
  SampleMemory(std::span<const std::int64_t> shape, DType dtype)
      : elements_(elements_of(shape, 1, dtype)),
        dtype_(dtype),
        memory_(allocate_host(elements_ * size_of(dtype))) {}

  [[nodiscard]] Buffer buffer() const { return {memory_.data(), elements_, dtype_}; }

  // Continues a hash.
  [[nodiscard]] std::uint64_t hashed(std::uint64_t hash) const {
    std::uint64_t own = 0;
    cpu::fingerprint(buffer(), &own);
    return mix_bits(hash ^ own);
  }

 private:
  std::size_t elements_;
  DType dtype_;
  Allocation memory_;
};

}  // namespace

std::uint64_t sampled_fingerprint(const Dataset& dataset, DType input_dtype, std::int64_t samples) {
  require(samples >= 1, fmt::format("[sampled_fingerprint] samples is {}, below 1", samples));
  const std::int64_t size = dataset.size();
  const SampleMemory input(dataset.input_shape(), input_dtype);
  const SampleMemory label(dataset.label_shape(), dataset.label_dtype(input_dtype));
  std::uint64_t hash = mix_bits(static_cast<std::uint64_t>(size) + 1);
  const std::int64_t last = std::min(samples, size) - 1;
  for (std::int64_t i = 0; i <= last; ++i) {
    const std::int64_t index = i * (size - 1) / std::max<std::int64_t>(last, 1);
    dataset.gather(std::span(&index, 1), input.buffer(), label.buffer());
    hash = label.hashed(input.hashed(hash));
  }
  return hash;
}

}  // namespace ddp
