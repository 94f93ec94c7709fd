// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::test {

// While this object exists, threads of this name get no memory: operator new throws. There can be
// one at a time. Only for executables that link refused_memory.cpp, which replaces the operator.
class RefusedMemory {
 public:
  explicit RefusedMemory(const char* thread);
  ~RefusedMemory();
  RefusedMemory(const RefusedMemory&) = delete;
  RefusedMemory& operator=(const RefusedMemory&) = delete;

  // How often they have asked for memory.
  [[nodiscard]] int refusals() const;
};

}  // namespace ddp::test
