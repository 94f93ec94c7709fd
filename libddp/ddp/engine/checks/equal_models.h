// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Throws MismatchError on every rank, naming the first parameter, option or buffer that differs,
// unless all ranks pass equal names, shapes, dtypes, options and hooks. Collective; equal models
// cost one small all_gather.
void check_equal_models(ProcessGroup& group, std::span<const Parameter> parameters,
                        const DdpOptions& options, const GradientHook* hook);

}  // namespace ddp
