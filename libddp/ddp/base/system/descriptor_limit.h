// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// Raises the number of files that this process may have open (the soft limit RLIMIT_NOFILE) as far
// as the hard limit allows, up to a million. Programs that it starts inherit that.
void raise_descriptor_limit() noexcept;

}  // namespace ddp
