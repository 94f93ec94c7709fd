// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// Returns the parameters. Throws std::invalid_argument unless their values and gradients match
// their shapes, all memory is on the group's device and has one use (but for buffers), names are
// unique among parameters and among buffers, DdpOptions::flat_gradients, if given, fits, and
// fingerprint_every is not negative.
[[nodiscard]] std::vector<Parameter> checked(const ProcessGroup& group,
                                             std::vector<Parameter> parameters,
                                             const DdpOptions& options);

}  // namespace ddp
