// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "ddp/nn/models/image_sizes.h"
#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// The sizes that a language model is built for.
struct TextSizes {
  std::size_t vocabulary = 256;  // different tokens
  std::size_t context = 128;     // tokens of a sample
};

// Models of images are "mlp", "lenet5", "convnet", "resnet18" and "unet". Language models are
// "gpt2", the smallest GPT-2, and "gpt-nano", "gpt-micro" and "gpt-mini", which have the layers,
// heads and widths of Karpathy's minGPT.
[[nodiscard]] bool is_language_model(std::string_view name);

// Throws std::invalid_argument that lists the known names if `name` is none of them.
void check_model_name(std::string_view name);

// A model of images. Throws std::invalid_argument that lists those if there is none of that name.
[[nodiscard]] std::unique_ptr<Module> make_model(std::string_view name, const Scope& scope,
                                                 const ImageSizes& sizes = {});

// The same for language models.
[[nodiscard]] std::unique_ptr<Module> make_language_model(std::string_view name, const Scope& scope,
                                                          const TextSizes& sizes);

}  // namespace ddp::nn
