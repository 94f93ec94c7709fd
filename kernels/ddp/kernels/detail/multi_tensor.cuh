// SPDX-License-Identifier: MIT
//
// Handles many tensors in one launch, as multi_tensor_apply of NVIDIA's apex does: a launch costs
// the host microseconds, and the work on most parameters of a model takes less than that. The table
// of tensors is an argument of the kernel, so nothing has to be copied to the device.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ddp/kernels/detail/chunks.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

// Elements [begin, end) of a tensor; `index` numbers the chunks of all tensors of a call.
struct Chunk {
  std::size_t begin;
  std::size_t end;
  std::size_t index;
};

// Block b of a launch works on the tensor t with first_block[t] <= b < first_block[t + 1].
template <class Tensor>
struct TensorTable {
  static constexpr std::size_t kArgumentBytes = 4096;  // every CUDA version allows as many
  static constexpr std::size_t kOperationBytes = 128;  // reserved for the operation's own arguments
  static constexpr unsigned kCapacity =
      (kArgumentBytes - kOperationBytes - 2 * sizeof(std::size_t)) /
      (sizeof(Tensor) + sizeof(unsigned));

  Tensor tensors[kCapacity];
  unsigned first_block[kCapacity + 1];
  unsigned size;
  std::size_t first_chunk;  // number of chunks in the call's earlier launches

  void clear(std::size_t first) {
    size = 0;
    first_block[0] = 0;
    first_chunk = first;
  }
  void add(const Tensor& tensor) {
    tensors[size] = tensor;
    first_block[size + 1] = blocks() + static_cast<unsigned>(detail::chunks_of(tensor.count));
    ++size;
  }
  [[nodiscard]] unsigned blocks() const { return first_block[size]; }
};

// Calls operation(tensor, chunk) with all threads of a block.
template <class Tensor, class Operation>
__global__ void multi_tensor_kernel(TensorTable<Tensor> table, Operation operation) {
  unsigned low = 0, high = table.size;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (table.first_block[middle] <= blockIdx.x ? low : high) = middle;
  }
  const Tensor& tensor = table.tensors[low];
  const std::size_t begin = (blockIdx.x - table.first_block[low]) * detail::kChunkElements;
  const std::size_t end = begin + detail::kChunkElements;
  operation(tensor,
            Chunk{begin, end < tensor.count ? end : tensor.count, table.first_chunk + blockIdx.x});
}

// Applies the operation to all chunks of all tensors, in as few launches as the table's capacity
// allows. A Tensor is a small struct of pointers with a `count`; describe(k) returns the one of
// tensor k.
template <class Describe, class Operation>
void over_tensors(std::size_t tensors, const Describe& describe, const Operation& operation,
                  Stream stream) {
  using Tensor = decltype(describe(std::size_t{0}));
  static_assert(sizeof(Operation) <= TensorTable<Tensor>::kOperationBytes);
  TensorTable<Tensor> table;
  table.clear(0);
  for (std::size_t k = 0; k < tensors; ++k) {
    if (const Tensor tensor = describe(k); tensor.count > 0) table.add(tensor);
    const bool is_full = table.size == TensorTable<Tensor>::kCapacity || k + 1 == tensors;
    if (!is_full || table.size == 0) continue;
    run(multi_tensor_kernel<Tensor, Operation>, table.blocks(), stream, table, operation);
    table.clear(table.first_chunk + table.blocks());
  }
}

}  // namespace ddp::cu::launch
