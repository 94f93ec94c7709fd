// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace ddp {

// kAuto: nccl if every rank has a CUDA device; else shm if all ranks are on one host, tcp if no
// two ranks share a host, and otherwise both: shared memory inside each host, TCP between the
// hosts.
enum class Backend { kAuto, kNccl, kShm, kTcp, kShmTcp };

[[nodiscard]] std::string_view to_string(Backend backend);
// Takes "auto", "nccl", "shm", "tcp" or "shm+tcp", and "gloo", PyTorch's backend for the same
// purpose, for "tcp"; anything else is std::invalid_argument.
[[nodiscard]] Backend parse_backend(std::string_view name);

}  // namespace ddp
