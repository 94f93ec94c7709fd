// SPDX-License-Identifier: MIT
//
// What is done with two vectors, for reduce_loops.h; lanes.h says what is forbidden here.
#pragma once

namespace ddp::buffer_ops {
namespace {

struct Sum {
  static constexpr bool kScales = false;
  template <class V>
  static V combine(V a, V b) {
    return a + b;
  }
};

struct ScaledSum : Sum {
  static constexpr bool kScales = true;
};

struct Product {
  static constexpr bool kScales = false;
  template <class V>
  static V combine(V a, V b) {
    return a * b;
  }
};

// A NaN on either side wins, as in PyTorch.
struct Min {
  static constexpr bool kScales = false;
  template <class V>
  static V combine(V a, V b) {
    const V lesser = a < b ? a : b;
    return a != a ? a : lesser;
  }
};

struct Max {
  static constexpr bool kScales = false;
  template <class V>
  static V combine(V a, V b) {
    const V greater = a > b ? a : b;
    return a != a ? a : greater;
  }
};

}  // namespace
}  // namespace ddp::buffer_ops
