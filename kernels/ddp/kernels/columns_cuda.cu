// SPDX-License-Identifier: MIT
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/columns.h"
#include "ddp/kernels/detail/columns_checks.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu {
namespace {

// Returns the index within the whole of the part's element i.
__device__ std::size_t place_in_whole(std::size_t i, const ColumnRange& range) {
  return i / range.count * range.whole.columns + range.first + i % range.count;
}

template <class T>
__global__ void put_columns_kernel(const T* part, T* whole, ColumnRange range, std::size_t count,
                                   WriteMode mode) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    launch::store(&whole[place_in_whole(i, range)], part[i], mode);
  }
}

template <class T>
__global__ void take_columns_kernel(const T* whole, T* part, ColumnRange range, std::size_t count,
                                    WriteMode mode) {
  for (std::size_t i = launch::global_thread(); i < count; i += launch::grid_threads()) {
    launch::store(&part[i], whole[place_in_whole(i, range)], mode);
  }
}

}  // namespace

void put_columns(const Buffer& part, const GradientTarget& whole, const ColumnRange& range,
                 Stream stream) {
  detail::check_columns("put_columns", part, whole.buffer, range);
  if (part.count == 0) return;
  const DeviceGuard guard(part.device);
  detail::dispatch_float("put_columns", part.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(put_columns_kernel<T>, launch::blocks_for(part.count), stream,
                static_cast<const T*>(part.data), static_cast<T*>(whole.buffer.data), range,
                part.count, whole.mode);
  });
}

void take_columns(const Buffer& whole, const GradientTarget& part, const ColumnRange& range,
                  Stream stream) {
  const Buffer& target = part.buffer;
  detail::check_columns("take_columns", target, whole, range);
  if (target.count == 0) return;
  const DeviceGuard guard(target.device);
  detail::dispatch_float("take_columns", whole.dtype, [&](auto element) {
    using T = decltype(element);
    launch::run(take_columns_kernel<T>, launch::blocks_for(target.count), stream,
                static_cast<const T*>(whole.data), static_cast<T*>(target.data), range,
                target.count, part.mode);
  });
}

}  // namespace ddp::cu
