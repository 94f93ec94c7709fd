// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

#if defined(__x86_64__) && defined(__GNUC__)

// Call loop(), compiled for the vectors in their names, which the processor must have. All calls in
// `loop` are inlined, so no function that others may call is compiled for such a processor.
template <class Loop>
__attribute__((target("avx2"), flatten)) void with_avx2(const Loop& loop) {
  loop();
}
template <class Loop>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"), flatten)) void with_avx512(
    const Loop& loop) {
  loop();
}

inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
inline bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}

// Calls loop(), compiled for the widest vectors of this processor that are supported here: the
// project is built for every processor of its architecture. What `loop` calls must be inline. The
// results have the same bits on all of them: without FMA, wider vectors round as narrow ones do.
template <class Loop>
void vectorised(const Loop& loop) {
  if (has_avx512()) {
    with_avx512(loop);
  } else if (has_avx2()) {
    with_avx2(loop);
  } else {
    loop();
  }
}

#else

template <class Loop>
void vectorised(const Loop& loop) {
  loop();
}

#endif

}  // namespace ddp
