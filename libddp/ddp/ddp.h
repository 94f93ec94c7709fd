// SPDX-License-Identifier: MIT
//
// Includes what a program needs to use the engine.
#pragma once

#include "ddp/base/buffer.h"
#include "ddp/base/busy_with.h"
#include "ddp/base/error.h"
#include "ddp/base/error_record.h"
#include "ddp/base/log.h"
#include "ddp/base/worker_env.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/equal_on_all_ranks.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/on_rank0.h"
#include "ddp/collectives/process_group.h"
#include "ddp/collectives/spawn.h"
#include "ddp/engine/distributed_data_parallel.h"
#include "ddp/engine/signal_guard.h"
#include "ddp/version.h"
