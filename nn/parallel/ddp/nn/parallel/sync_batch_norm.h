// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/collectives/process_group.h"
#include "ddp/nn/module.h"

namespace ddp::nn {

// In training, makes every batch norm of the module normalise by the statistics of all ranks'
// batches together, as torch.nn.SyncBatchNorm.convert_sync_batchnorm() does; here the modules keep
// their types. Running statistics are then bit-identical on all ranks. In a world of one nothing
// changes. Returns the number of batch norms. Collective. A DataParallel is std::invalid_argument,
// since statistics are exchanged by ranks, not by the replicas of one rank.
//
// From then on every rank must run the same batch norms in each training step, forward and
// backward; a rank without samples does so with an empty batch. Each batch norm costs an exchange
// of 2 * channels + 1 float64 in the forward pass and one of 2 * channels in the backward pass, on
// a duplicate of the group, so that these do not queue behind gradients.
std::size_t convert_sync_batchnorm(Module& module, ProcessGroup& group);

}  // namespace ddp::nn
