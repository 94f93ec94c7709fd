// SPDX-License-Identifier: MIT
//
// In a file of its own, so that callers assume that a call clobbers every register that it may.
#include "cuda_emulation/fiber.h"

#include <ucontext.h>

#include <cstdint>

namespace ddp::emulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr std::size_t kPageBytes = 4096, kLineBytes = 64;

// The offset of a stack within its page. Stacks that all began at the same offset would compete for
// a few cache lines.
std::size_t shift_of(const std::byte* stack) {
  return reinterpret_cast<std::uintptr_t>(stack) / kStackBytes * kLineBytes % kPageBytes;
}

}  // namespace

[[gnu::noinline]] void Fiber::go_to(Place& place) { __builtin_longjmp(place.buffer, 1); }

void Fiber::resume() {
  if (__builtin_setjmp(outside_.buffer) != 0) return;
  if (stack_ == nullptr) begin();
  go_to(inside_);
}

void Fiber::stop() {
  if (__builtin_setjmp(inside_.buffer) == 0) go_to(outside_);
}

void Fiber::make_way_for(Fiber& next) {
  next.outside_ = outside_;
  if (__builtin_setjmp(inside_.buffer) == 0) go_to(next.inside_);
}

[[gnu::noinline]] void Fiber::begin() {
  stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes + kPageBytes);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack_.get() + shift_of(stack_.get());
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, entry_, 0);
  setcontext(&context);
}

}  // namespace ddp::emulation
