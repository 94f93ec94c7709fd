// SPDX-License-Identifier: MIT
//
// The tensors of a checkpoint: the model's have PyTorch's names, and the others have a prefix that
// names their owner.
#pragma once

#include <vector>

#include "ddp/base/named_buffer.h"
#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/module.h"
#include "ddp/nn/optim/optimizer.h"
#include "ddp/nn/optim/reduce_lr_on_plateau.h"

namespace train {

// All objects that a training changes; those that it does not have are null.
struct TrainedObjects {
  ddp::nn::Module& model;
  ddp::nn::Optimizer& optimizer;
  ddp::nn::GradScaler* scaler = nullptr;
  ddp::nn::ReduceLrOnPlateau* plateau = nullptr;
};

// Returns views of the live tensors, which must outlive them.
[[nodiscard]] std::vector<ddp::NamedBuffer> checkpoint_tensors(const TrainedObjects& objects);

}  // namespace train
