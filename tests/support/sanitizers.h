// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::test {

// Whether this build has the thread or the address sanitizer. It is then many times slower, and
// memory that is freed stays with the process.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace ddp::test
