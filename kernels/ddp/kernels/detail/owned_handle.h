// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <type_traits>

namespace ddp::detail {

// A C library's handle (a pointer), with its function that destroys it.
template <class Handle, class Status>
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<Handle>, Status (*)(Handle)>;

}  // namespace ddp::detail
