// SPDX-License-Identifier: MIT
#include "model_tensors.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "ddp/base/named_buffer.h"
#include "ddp/io/checkpoint_file.h"

namespace train {
namespace {

bool is_model_tensor(const ddp::NamedBuffer& tensor) {
  return std::ranges::none_of(std::array{kOptimizerPrefix, kScalerPrefix, kSchedulePrefix},
                              [&](const char* prefix) { return tensor.name.starts_with(prefix); });
}

}  // namespace

ddp::Safetensors load_model_tensors(const std::filesystem::path& file) {
  ddp::Safetensors loaded = ddp::load_weights(file);
  std::erase_if(loaded.tensors, std::not_fn(is_model_tensor));
  return loaded;
}

}  // namespace train
