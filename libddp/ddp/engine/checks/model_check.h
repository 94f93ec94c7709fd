// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Returns the parameters. Throws std::invalid_argument unless their values and gradients match
// their shapes, are on the group's device and do not share memory, names are unique among
// parameters and among buffers, DdpOptions::flat_gradients, if given, fits, and fingerprint_every
// is not negative.
[[nodiscard]] std::vector<Parameter> checked(const ProcessGroup& group,
                                             std::vector<Parameter> parameters,
                                             const DdpOptions& options);

// Throws MismatchError on every rank, naming the first parameter, option or buffer that differs,
// unless all ranks pass equal names, shapes, dtypes, options and hooks. Collective; equal models
// cost one small all_gather.
void check_equal_models(ProcessGroup& group, std::span<const Parameter> parameters,
                        const DdpOptions& options, const GradientHook* hook);

// Gives every rank the parameter values and model buffers of rank 0. Collective; returns when the
// broadcasts are done.
void broadcast_model(ProcessGroup& group, std::span<const Parameter> parameters,
                     std::span<const ModelBuffer> buffers);

}  // namespace ddp
