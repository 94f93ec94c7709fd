// SPDX-License-Identifier: MIT
#include "ddp/collectives/backend.h"

#include <stdexcept>
#include <string>

namespace ddp {

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kNccl:
      return "nccl";
    case Backend::kShm:
      return "shm";
    case Backend::kTcp:
      return "tcp";
    case Backend::kShmTcp:
      return "shm+tcp";
  }
  return "unknown";
}

Backend parse_backend(std::string_view name) {
  for (const Backend backend :
       {Backend::kAuto, Backend::kNccl, Backend::kShm, Backend::kTcp, Backend::kShmTcp}) {
    if (name == to_string(backend)) return backend;
  }
  if (name == "gloo") return Backend::kTcp;
  throw std::invalid_argument("unknown backend '" + std::string(name) +
                              "' (known: auto, nccl, shm, tcp or gloo, shm+tcp)");
}

}  // namespace ddp
