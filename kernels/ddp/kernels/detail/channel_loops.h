// SPDX-License-Identifier: MIT
//
// Loops over tensors of a ChannelShape, in memory order. The inner loop, which is vectorised, is
// over a plane, or over the channels of a sample if planes have one element.
#pragma once

#include <cstddef>
#include <vector>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/wide_sums.h"
#include "ddp/kernels/detail/write_each.h"
#include "ddp/kernels/shapes.h"

namespace ddp::detail {

// Calls f(offset) for each sample of a tensor whose planes have one element.
template <class F>
void for_each_sample(const ChannelShape& shape, const F& f) {
  const std::size_t count = shape.count();
  for (std::size_t offset = 0; offset < count; offset += shape.channels) f(offset);
}

// Calls f(c, offset) for each plane, which is of channel c.
template <class F>
void for_each_plane(const ChannelShape& shape, const F& f) {
  std::size_t offset = 0;
  for (std::size_t sample = 0; sample < shape.batch; ++sample) {
    for (std::size_t c = 0; c < shape.channels; ++c, offset += shape.plane) f(c, offset);
  }
}

// As write_each(), for each plane. value_of(c, offset) returns the function of the elements of one
// plane, which is of channel c and begins at `offset`.
template <class T, class ValueOf>
void write_channels(T* target, WriteMode mode, const ChannelShape& shape, const ValueOf& value_of) {
  vectorised([=] {
    if (shape.plane == 1) {
      for_each_sample(shape, [=](std::size_t offset) {
        write_each(target + offset, mode, shape.channels,
                   [=](std::size_t c) { return value_of(c, offset + c)(0); });
      });
    } else {
      for_each_plane(shape, [=](std::size_t c, std::size_t offset) {
        write_each(target + offset, mode, shape.plane, value_of(c, offset));
      });
    }
  });
}

// Adds the two numbers terms_of(c, offset)(i) of each element of a plane to sums[c] and
// sums[channels + c]. Planes are vectorised one by one: around their loop, which keeps 32 sums, gcc
// has no registers left for other loops.
template <class TermsOf>
void add_channel_sums(double* sums, const ChannelShape& shape, const TermsOf& terms_of) {
  double* const second_sums = sums + shape.channels;
  if (shape.plane == 1) {
    vectorised([=] {
      for_each_sample(shape, [=](std::size_t offset) {
        DDP_INDEPENDENT_ITERATIONS
        for (std::size_t c = 0; c < shape.channels; ++c) {
          const TwoSums terms = terms_of(c, offset + c)(0);
          sums[c] += terms.first;
          second_sums[c] += terms.second;
        }
      });
    });
    return;
  }
  std::vector<TwoWideSums> of_channels(shape.channels);
  for_each_plane(shape, [&](std::size_t c, std::size_t offset) {
    vectorised([plane = shape.plane, terms = terms_of(c, offset), &of_channel = of_channels[c]] {
      of_channel.add(
          plane, [=](std::size_t i) { return terms(i).first; },
          [=](std::size_t i) { return terms(i).second; });
    });
  });
  for (std::size_t c = 0; c < shape.channels; ++c) {
    const TwoSums total = of_channels[c].totals();
    sums[c] += total.first;
    second_sums[c] += total.second;
  }
}

}  // namespace ddp::detail
