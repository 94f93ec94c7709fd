// SPDX-License-Identifier: MIT
//
// The functions of binary.h.
#pragma once

#include "ddp/kernels/binary.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/host_device.h"

namespace ddp::detail {

template <class T>
struct Sum {
  T factor;
  DDP_HOST_DEVICE T operator()(T a, T b) const { return a + factor * b; }
};

template <class T>
struct Product {
  T factor;
  DDP_HOST_DEVICE T operator()(T a, T b) const { return factor * a * b; }
};

template <class T>
struct Quotient {
  T factor;
  DDP_HOST_DEVICE T operator()(T a, T b) const { return factor * a / b; }
};

// Exact at both ends, as torch.lerp is.
template <class T>
struct Mix {
  T factor;
  DDP_HOST_DEVICE T operator()(T a, T b) const {
    return factor < T(0.5) ? a + factor * (b - a) : b - (T{1} - factor) * (b - a);
  }
};

template <class T, class Run>
void with_binary(const BinaryFunction& f, Run&& run) {
  const T factor = static_cast<T>(f.factor);
  switch (f.kind) {
    case BinaryKind::kSum:
      return run(Sum<T>{factor});
    case BinaryKind::kProduct:
      return run(Product<T>{factor});
    case BinaryKind::kQuotient:
      return run(Quotient<T>{factor});
    case BinaryKind::kMix:
      return run(Mix<T>{factor});
  }
}

inline void check_binary(const Buffer& a, const Buffer& b, const Buffer& y) {
  require_memory("binary", "a", a);
  require("binary", "b", b, a);
  require("binary", "y", y, a);
}

}  // namespace ddp::detail
