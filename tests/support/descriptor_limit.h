// SPDX-License-Identifier: MIT
#pragma once

#include <sys/resource.h>

namespace ddp::test {

// While this object exists, the process may have `count` files open, or fewer if its hard limit is
// lower.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t count) {
    getrlimit(RLIMIT_NOFILE, &old_);
    const rlimit limit{count < old_.rlim_max ? count : old_.rlim_max, old_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &old_); }

 private:
  rlimit old_{};
};

}  // namespace ddp::test
