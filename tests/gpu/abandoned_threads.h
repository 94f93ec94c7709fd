// SPDX-License-Identifier: MIT
#pragma once

namespace ddp::test {

// True if a test has left a thread in a call that does not return, such as an NCCL call that waits
// for a rank. The process then ends without exit handlers, which would destroy objects that the
// thread uses.
inline bool has_abandoned_threads = false;

}  // namespace ddp::test
