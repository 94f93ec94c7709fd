// SPDX-License-Identifier: MIT
#include "checkpoint_tensors.h"

#include <algorithm>
#include <iterator>

#include "ddp/nn/named_buffers.h"
#include "model_tensors.h"

namespace train {

std::vector<ddp::NamedBuffer> checkpoint_tensors(const TrainedObjects& objects) {
  std::vector<ddp::NamedBuffer> tensors = ddp::nn::named_buffers(objects.model.state_dict());
  const auto add = [&](const std::vector<ddp::nn::NamedTensor>& state, const char* prefix) {
    std::ranges::move(ddp::nn::named_buffers(state, prefix), std::back_inserter(tensors));
  };
  add(objects.optimizer.state(), kOptimizerPrefix);
  if (objects.scaler) add(objects.scaler->state(), kScalerPrefix);
  if (objects.plateau) add(objects.plateau->state(), kSchedulePrefix);
  return tensors;
}

}  // namespace train
