// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/collectives/process_group.h"
#include "ddp/nn/module.h"

namespace ddp::nn {

// Makes every batch norm of the module normalise, in training, by the statistics of the batches of
// all ranks together, as torch.nn.SyncBatchNorm.convert_sync_batchnorm() does; here the modules
// stay what they are. Running statistics are then the same bits on all ranks. In a world of one
// nothing changes. Returns how many batch norms there are. Collective. A DataParallel is
// std::invalid_argument: it is the ranks of a group that exchange, not the replicas of one rank.
//
// From then on every rank runs the same batch norms in each training step, forward and backward: a
// rank without samples does so with an empty batch. Each costs an exchange of 2 * channels + 1
// float64 in the forward pass and one of 2 * channels in the backward pass, on a duplicate of the
// group, so that they do not queue behind gradients.
std::size_t convert_sync_batchnorm(Module& module, ProcessGroup& group);

}  // namespace ddp::nn
