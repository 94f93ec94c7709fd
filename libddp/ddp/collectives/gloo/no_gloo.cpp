// SPDX-License-Identifier: MIT
//
// Stands in for gloo_process_group.cpp in a build without Gloo.
#include "ddp/base/error.h"
#include "ddp/collectives/gloo/gloo_process_group.h"

namespace ddp {

bool gloo_is_compiled_in() { return false; }

std::shared_ptr<QueuedProcessGroup> make_gloo_process_group(GroupConfig, std::string) {
  throw EnvironmentError("this build of libddp has no Gloo, which CPU ranks on several hosts need");
}

}  // namespace ddp
