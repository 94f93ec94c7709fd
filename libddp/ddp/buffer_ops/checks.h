// SPDX-License-Identifier: MIT
//
// Argument checks that the CPU and CUDA functions share. All throw std::invalid_argument.
#pragma once

#include <string_view>

#include "ddp/base/buffer.h"

namespace ddp::buffer_ops {

void check_device(std::string_view name, const Buffer& buffer, DeviceType type);
void check_floating_point(std::string_view name, const Buffer& buffer);
// Check for the same count and device; check_same also for the same dtype.
void check_same_count(std::string_view name, const Buffer& source, const Buffer& target,
                      DeviceType type);
void check_same(std::string_view name, const Buffer& source, const Buffer& target, DeviceType type);

}  // namespace ddp::buffer_ops
