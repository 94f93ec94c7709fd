// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Returns the parameters. Throws std::invalid_argument unless values and gradients fit the shapes
// and the group.
[[nodiscard]] std::vector<Parameter> checked(const ProcessGroup& group,
                                             std::vector<Parameter> parameters);

// Throws std::invalid_argument if DdpOptions::flat_gradients is set and does not fit the
// parameters.
void check_flat_gradients(std::span<const Parameter> parameters, const Buffer& flat);

// Throws MismatchError on every rank, naming the first parameter that differs, unless all ranks
// pass equal names, shapes, dtypes, options and hooks. Collective; equal models cost one small
// all_gather.
void check_equal_models(ProcessGroup& group, std::span<const Parameter> parameters,
                        const DdpOptions& options, const GradientHook* hook);

// Copies rank 0's values and buffers to every rank. Collective; returns when done.
void broadcast_model(ProcessGroup& group, std::span<const Parameter> parameters,
                     std::span<const ModelBuffer> buffers);

}  // namespace ddp
