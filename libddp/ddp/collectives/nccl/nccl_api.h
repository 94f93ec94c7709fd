// SPDX-License-Identifier: MIT
//
// NCCL through dlopen: a program that links libddp starts without loading NCCL's 200 MB, and runs
// where NCCL is missing. For sources compiled with CUDA only.
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

namespace ddp {

// NCCL's functions, named as there without the prefix. Copies are cheap; the library stays loaded.
struct NcclApi {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommRegister) comm_register;
  decltype(&ncclCommDeregister) comm_deregister;
  decltype(&ncclMemAlloc) mem_alloc;
  decltype(&ncclMemFree) mem_free;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclReduce) reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  int version;  // NCCL_VERSION_CODE of the library
};

// Opens libnccl.so.2. Throws CudaError with the dynamic linker's reason, Error if NCCL lacks a
// function.
[[nodiscard]] NcclApi open_nccl(const std::string& file = "libnccl.so.2");

// "unhandled system error: <the last warning that NCCL gave> (<what helps>)".
[[nodiscard]] std::string error_text(const NcclApi& nccl, ncclResult_t result);

// Throws CudaError "[nccl] action: error_text" unless `result` is success.
void check_nccl(const NcclApi& nccl, ncclResult_t result, std::string_view action);

}  // namespace ddp

// DDP_NCCL_CHECK(nccl, get_unique_id(&id));
#define DDP_NCCL_CHECK(nccl, call) ::ddp::check_nccl((nccl), (nccl).call, #call)
