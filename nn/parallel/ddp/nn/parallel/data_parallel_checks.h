// SPDX-License-Identifier: MIT
//
// What DataParallel demands of its arguments. Violations are std::invalid_argument.
#pragma once

#include <cstddef>
#include <vector>

#include "ddp/base/device.h"
#include "ddp/nn/module.h"
#include "ddp/nn/shape.h"
#include "ddp/nn/tensor.h"

namespace ddp::nn {

// The devices of the replicas: `device_ids` without the module's own, which must be among them. No
// GPU may be named twice.
[[nodiscard]] std::vector<Device> other_devices(Device own, std::vector<Device> device_ids);

// The module's values are copied into a replica one by one, so both must have the same parameters,
// buffers and child modules, in the same order.
void check_alike(Module& module, Module& replica);

// `what` begins the error: "an input".
void check_on(Device device, const Tensor& tensor, const char* what);

// The size of dimension `dim`, which must exist. `what` begins the error: "an input".
[[nodiscard]] std::size_t size_along(const Shape& shape, std::size_t dim, const char* what);

// The first dimension must have one element for each sample.
void check_targets(const Shape& targets, std::size_t samples);

// Dimension `dim` must have `count` elements, and all else must be as in the first part's output.
void check_output(const Tensor& output, std::size_t count, const Tensor& first, std::size_t dim);

// One number.
void check_loss(const Tensor& loss);

}  // namespace ddp::nn
