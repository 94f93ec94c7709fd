// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/buffer_ops/lanes.h"

namespace ddp::buffer_ops {
namespace {

// From and To are lanes (lanes.h) in the order of the elements, as many in both.
template <class From, class To>
void cast(const void* source, void* target, std::size_t count) {
  static_assert(From::kCount == To::kCount);
  const auto* from = static_cast<const typename From::Stored*>(source);
  auto* to = static_cast<typename To::Stored*>(target);
  std::size_t i = 0;
  for (; i + From::kCount <= count; i += From::kCount) {
    To::store(To::pack(From::load(from + i)), to + i);
  }
  if (i == count) return;
  typename From::Stored rest[From::kCount] = {};
  typename To::Stored result[To::kCount];
  __builtin_memcpy(rest, from + i, (count - i) * sizeof(rest[0]));
  To::store(To::pack(From::load(rest)), result);
  __builtin_memcpy(to + i, result, (count - i) * sizeof(result[0]));
}

}  // namespace
}  // namespace ddp::buffer_ops
