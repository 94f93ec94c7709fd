// SPDX-License-Identifier: MIT
#include "support/refused_memory.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

namespace {

std::atomic<const char*> refused_thread = nullptr;
std::atomic<int> refusal_count = 0;

bool is_refused() {
  const char* const thread = refused_thread;
  if (thread == nullptr) return false;
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view(name.data()) == thread;
}

}  // namespace

namespace ddp::test {

RefusedMemory::RefusedMemory(const char* thread) {
  refusal_count = 0;
  refused_thread = thread;
}

RefusedMemory::~RefusedMemory() { refused_thread = nullptr; }

int RefusedMemory::refusals() const { return refusal_count; }

}  // namespace ddp::test

// The forms for arrays call these, or, under a sanitizer, forms of its own.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (!is_refused()) return std::malloc(size == 0 ? 1 : size);
  ++refusal_count;
  return nullptr;
}

void* operator new(std::size_t size) {
  if (void* memory = ::operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
