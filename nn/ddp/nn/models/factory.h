// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string_view>

#include "ddp/nn/models/image_sizes.h"
#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// Throws std::invalid_argument that lists the known names if `name` is none of them: "mlp",
// "lenet5", "convnet", "resnet18" or "unet".
void check_model_name(std::string_view name);

// Throws as check_model_name() does.
[[nodiscard]] std::unique_ptr<Module> make_model(std::string_view name, const Scope& scope,
                                                 const ImageSizes& sizes = {});

}  // namespace ddp::nn
