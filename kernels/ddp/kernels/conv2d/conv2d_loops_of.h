// SPDX-License-Identifier: MIT
//
// Compiled once for each instruction set; see conv2d/conv2d_lanes.h.
#pragma once

#include "ddp/kernels/conv2d/conv2d_forward_lanes.h"
#include "ddp/kernels/conv2d/conv2d_grad_input_lanes.h"
#include "ddp/kernels/conv2d/conv2d_grad_weight_lanes.h"

namespace ddp::detail {
namespace {

template <class L>
constexpr Conv2dLoops<typename L::Element> loops_of() {
  return {L::kCount, Conv2dForward<L>::run, Conv2dGradInput<L>::run, Conv2dGradWeight<L>::run};
}

template <int kVectorBytes>
constexpr Conv2dLoopsOfBoth kLoopsOf{loops_of<Lanes<float, kVectorBytes>>(),
                                     loops_of<Lanes<double, kVectorBytes>>()};

}  // namespace
}  // namespace ddp::detail
