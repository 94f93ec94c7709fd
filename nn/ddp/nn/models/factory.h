// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// "mlp" or "lenet5", in their default sizes. Throws std::invalid_argument that lists the known
// names.
[[nodiscard]] std::unique_ptr<Module> make_model(std::string_view name, const Scope& scope);

}  // namespace ddp::nn
