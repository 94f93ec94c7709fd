// SPDX-License-Identifier: MIT
//
// Stands in for the nccl_*.cpp files in a build without the CUDA toolkit.
#include "ddp/base/error.h"
#include "ddp/collectives/nccl/nccl_process_group.h"

namespace ddp {
namespace {

[[noreturn]] void refuse() { throw CudaError("this build of libddp has no NCCL"); }

}  // namespace

std::shared_ptr<ProcessGroup> make_nccl_process_group(GroupConfig) { refuse(); }

std::string nccl_version() { refuse(); }

std::string nccl_path() { refuse(); }

}  // namespace ddp
