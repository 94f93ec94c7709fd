// SPDX-License-Identifier: MIT
#include "ddp/base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace ddp {

// Not raised to a hard limit of a thousand million: some programs take minutes to close every
// descriptor that may be open.
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
