// SPDX-License-Identifier: MIT
//
// Makes the objects that the flags ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ddp/collectives/process_group.h"
#include "ddp/data/data_loader.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/nn/context.h"
#include "ddp/nn/module.h"
#include "ddp/samplers/sampler.h"
#include "options.h"
#include "task.h"

namespace train {

// Throws std::invalid_argument if no batch would be left, or if the sampler cannot cut a global
// batch over the ranks.
[[nodiscard]] std::unique_ptr<ddp::Sampler> make_sampler(const Options& options,
                                                         const ddp::ProcessGroup& group,
                                                         std::int64_t dataset_size);

[[nodiscard]] ddp::DataLoaderOptions loader_options(const Options& options, const Task& task,
                                                    const ddp::ProcessGroup& group);

[[nodiscard]] ddp::DdpOptions engine_options(const Options& options,
                                             const ddp::ProcessGroup& group);

// Makes the model, with weights drawn from the seed.
[[nodiscard]] std::unique_ptr<ddp::nn::Module> make_module(const Options& options,
                                                           ddp::nn::Context& context,
                                                           const Task& task);

// With --init, loads the file's weights into rank 0's model; DistributedModule copies them to all
// ranks. Returns a line about what was taken and what was not if that may be a part, on rank 0.
[[nodiscard]] std::string load_initial_weights(const Options& options,
                                               const ddp::ProcessGroup& group,
                                               const ddp::nn::Context& context,
                                               ddp::nn::Module& module);

}  // namespace train
