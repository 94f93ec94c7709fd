// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::detail {

#if defined(__x86_64__) && defined(__GNUC__)

// The caller has found that the processor has AVX2. All calls in `loop` are inlined, so no function
// that others may call is compiled for that processor.
template <class Loop>
__attribute__((target("avx2"), flatten)) void with_avx2(const Loop& loop) {
  loop();
}

// Calls loop(), compiled for the widest vectors of this processor that are supported here: the
// project is built for every processor of its architecture. What `loop` calls must be inline. The
// results have the same bits on all of them: without FMA, wider vectors round as narrow ones do.
template <class Loop>
void vectorised(const Loop& loop) {
  static const bool kHasAvx2 = __builtin_cpu_supports("avx2");
  kHasAvx2 ? with_avx2(loop) : loop();
}

#else

template <class Loop>
void vectorised(const Loop& loop) {
  loop();
}

#endif

}  // namespace ddp::detail
