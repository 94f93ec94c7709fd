// SPDX-License-Identifier: MIT
//
// libjpeg and libpng report an error by calling a function that must not return. Our function does
// a longjmp over their frames, which have no destructors, into a frame of ours that throws.
#pragma once

#include <array>
#include <csetjmp>
#include <stdexcept>

namespace ddp::image_internal {

struct LongjmpGuard {
  std::jmp_buf jump;
  std::array<char, 256> message{};  // filled in before the jump
};

// Runs `step`, and throws std::runtime_error with the message if it jumps. Nothing in `step` may
// have a destructor, since the jump would skip it. Not inlined, so that no variable of the caller
// lives in a register that the jump restores.
template <class Step>
[[gnu::noinline]] void run_guarded(LongjmpGuard& guard, Step step) {
  if (setjmp(guard.jump) != 0) throw std::runtime_error(guard.message.data());
  step();
}

}  // namespace ddp::image_internal
