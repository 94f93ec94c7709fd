// SPDX-License-Identifier: MIT
#include "ddp/base/system/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace ddp {

// The limit is raised to kEnough at most, even if the hard limit is a thousand million: some
// programs close every descriptor that may be open, which would take them minutes.
void raise_descriptor_limit() noexcept {
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddp
