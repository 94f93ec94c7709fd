// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <type_traits>

namespace ddp::detail {

// Owns a handle (a pointer) of a C library, and destroys it with the library's function.
template <class Handle, class Status>
using OwnedHandle = std::unique_ptr<std::remove_pointer_t<Handle>, Status (*)(Handle)>;

}  // namespace ddp::detail
