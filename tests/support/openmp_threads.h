// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/system/dynamic_library.h"

namespace ddp::test {

// While it lives, OpenMP (which oneDNN loads at its first operation) gives this thread as many
// threads.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads)
      : library_("libgomp.so.1", DynamicLibrary::Lifetime::kThisIfThere) {
    int (*max_threads)() = nullptr;
    if (!library_.find("omp_set_num_threads", set_) ||
        !library_.find("omp_get_max_threads", max_threads)) {
      return;
    }
    previous_ = max_threads();
    set_(threads);
  }
  ~OpenMpThreads() {
    if (is_there()) set_(previous_);
  }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

  // False if this process has not loaded GNU's OpenMP: then nothing changes.
  [[nodiscard]] bool is_there() const { return previous_ > 0; }

 private:
  DynamicLibrary library_;
  void (*set_)(int) = nullptr;
  int previous_ = 0;
};

}  // namespace ddp::test
