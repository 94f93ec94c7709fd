// SPDX-License-Identifier: MIT
#include "checkpoint_tensors.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>

#include "ddp/nn/named_buffers.h"

namespace train {
namespace {

constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kScaler = "scaler.";
constexpr const char* kSchedule = "schedule.";

bool is_model_tensor(const ddp::NamedBuffer& tensor) {
  return std::ranges::none_of(std::array{kOptimizer, kScaler, kSchedule},
                              [&](const char* prefix) { return tensor.name.starts_with(prefix); });
}

}  // namespace

std::vector<ddp::NamedBuffer> checkpoint_tensors(const TrainedObjects& objects) {
  std::vector<ddp::NamedBuffer> tensors = ddp::nn::named_buffers(objects.model.state_dict());
  const auto add = [&](const std::vector<ddp::nn::NamedTensor>& state, const char* prefix) {
    std::ranges::move(ddp::nn::named_buffers(state, prefix), std::back_inserter(tensors));
  };
  add(objects.optimizer.state(), kOptimizer);
  if (objects.scaler) add(objects.scaler->state(), kScaler);
  if (objects.plateau) add(objects.plateau->state(), kSchedule);
  return tensors;
}

ddp::Safetensors load_model_tensors(const std::filesystem::path& file) {
  ddp::Safetensors loaded = ddp::load_safetensors(file);
  std::erase_if(loaded.tensors, std::not_fn(is_model_tensor));
  return loaded;
}

}  // namespace train
