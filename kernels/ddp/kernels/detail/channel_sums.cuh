// SPDX-License-Identifier: MIT
//
// For kernels in which one block of kChannelThreads threads sums one channel. A model may have as
// few as 64 channels, fewer than a GPU has multiprocessors, so a block is as large as it can be,
// and its threads have several loads of up to 16 bytes on the way.
#pragma once

#include "ddp/kernels/detail/any_float.cuh"
#include "ddp/kernels/detail/divisor.h"
#include "ddp/kernels/detail/launch.cuh"

namespace ddp::cu::launch {

inline constexpr unsigned kChannelThreads = 1024;

// Where the packs of kWidth elements of a channel are in a tensor of a ChannelShape.
template <class Index, int kWidth>
class ChannelPacks {
 public:
  static constexpr int kPackWidth = kWidth;

  explicit ChannelPacks(const ChannelShape& shape)
      : per_plane_(static_cast<Index>(shape.plane / kWidth)),
        count_(static_cast<Index>(shape.per_channel() / kWidth)),
        channels_(static_cast<Index>(shape.channels)) {}

  __device__ Index count() const { return count_; }
  // The position of pack i of a channel's first element.
  __device__ std::size_t position(std::size_t channel, Index i) const {
    const Index sample = i / per_plane_;
    const std::size_t plane = static_cast<std::size_t>(sample) * channels_ + channel;
    return (plane * per_plane_ + (i - sample * per_plane_)) * kWidth;
  }

 private:
  detail::Divisor<Index> per_plane_;
  Index count_, channels_;
};

// Calls add(load(p)) for the positions p of this thread's packs of a channel, in a fixed order, so
// that equal inputs give equal bits. The threads of a block visit every pack once.
template <class Packs, class Load, class Add>
__device__ void visit_channel(const Packs& packs, std::size_t channel, const Load& load,
                              const Add& add) {
  using Index = decltype(packs.count());
  constexpr int kLoads = 4;  // on the way at a time
  constexpr Index kStep = kChannelThreads;
  Index i = threadIdx.x;
  for (; i + (kLoads - 1) * kStep < packs.count(); i += kLoads * kStep) {
    decltype(load(std::size_t{0})) loaded[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) loaded[k] = load(packs.position(channel, i + k * kStep));
#pragma unroll
    for (int k = 0; k < kLoads; ++k) add(loaded[k]);
  }
  for (; i < packs.count(); i += kStep) add(load(packs.position(channel, i)));
}

// True if packs of kWide<T> elements of these operands lie in one plane, and are aligned.
template <class T>
bool has_wide_packs(const ChannelShape& shape, const T* operand, const auto*... others) {
  return are_aligned(operand, others...) && shape.plane % kWide<T> == 0;
}

// Calls f with the ChannelPacks for operands with elements of type T at these addresses.
template <class F, class T>
void with_channel_packs(const ChannelShape& shape, const F& f, const T* operand,
                        const auto*... others) {
  // A block's last step may exceed the count.
  detail::with_index(shape.per_channel() + 4 * kChannelThreads, [&](auto index) {
    with_width<T>(has_wide_packs(shape, operand, others...),
                  [&](auto width) { f(ChannelPacks<decltype(index), width>(shape)); });
  });
}

// The channel of each pack of kWidth elements of a tensor with a ChannelShape that is not empty.
template <class I, int kWidth>
class ChannelOf {
 public:
  using Index = I;
  static constexpr int kPackWidth = kWidth;

  explicit ChannelOf(const ChannelShape& shape)
      : count_(static_cast<Index>(shape.count() / kWidth)),
        channels_(static_cast<Index>(shape.channels)),
        per_plane_(static_cast<Index>(shape.plane / kWidth)) {}

  __device__ Index operator()(Index pack) const { return pack / per_plane_ % channels_; }
  __device__ Index channels() const { return channels_; }
  __host__ __device__ Index count() const { return count_; }

 private:
  Index count_;
  detail::Divisor<Index> channels_, per_plane_;
};

// Calls f with the ChannelOf for operands with elements of type T at these addresses.
template <class F, class T>
void with_channel_of(const ChannelShape& shape, const F& f, const T* operand,
                     const auto*... others) {
  with_grid_index(shape.count(), [&](auto index) {
    with_width<T>(has_wide_packs(shape, operand, others...),
                  [&](auto width) { f(ChannelOf<decltype(index), width>(shape)); });
  });
}

// Launches a kernel whose blocks take the channels in turn.
template <class... Parameters, class... Arguments>
void run_channels(void (*kernel)(Parameters...), std::size_t channels, Stream stream,
                  Arguments&&... arguments) {
  launch_kernel(kernel, blocks_for(channels, 1), kChannelThreads, stream,
                std::forward<Arguments>(arguments)...);
}

}  // namespace ddp::cu::launch
