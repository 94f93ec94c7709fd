// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_api.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <string_view>

#include "ddp/base/error.h"
#include "ddp/base/system/dynamic_library.h"
#include "ddp/collectives/nccl/nccl_process_group.h"

namespace ddp {
namespace {

struct Hint {
  std::string_view warning;  // a part of NCCL's text
  std::string_view advice;
};

constexpr Hint kHints[] = {
    {"Duplicate GPU", "two ranks use one GPU: start at most one worker per GPU"},
    {"shared memory", "/dev/shm may be too small: in a container, use docker run --shm-size=1g"},
    {"no socket interface", "name the network interface in NCCL_SOCKET_IFNAME"},
    {"onnect to",
     "hosts must reach each other there: if it is the wrong network, name the right "
     "interface in NCCL_SOCKET_IFNAME; if it is the right one, look for a firewall"},
    {"NCCL version", "all ranks must load the same libnccl.so.2"},
    {"ibv_reg_mr",
     "locked memory may be limited: run ulimit -l unlimited in the shell of each worker"},
    {"ibv_modify_qp", "NCCL_IB_GID_INDEX and NCCL_IB_HCA must fit the network, see show_gids"},
    {"Got completion",
     "an InfiniBand or RoCE link did not answer: NCCL_IB_GID_INDEX must fit the "
     "network, see show_gids; NCCL_IB_DISABLE=1 avoids such links"},
    {"out of memory", "nvidia-smi shows who uses the GPU's memory"},
    {"peer mapping resources",
     "too many GPUs for direct transfers: NCCL_P2P_DISABLE=1 avoids them"},
    {"peer access", "these GPUs have no direct transfers: set NCCL_P2P_DISABLE=1"},
    {"driver version is insufficient", "the NVIDIA driver is older than NCCL's CUDA"},
    {"Too many open files", "run ulimit -n 65536 in the shell of each worker"},
};

std::string_view advice_for(std::string_view warning) {
  for (const Hint& hint : kHints) {
    if (warning.find(hint.warning) != std::string_view::npos) return hint.advice;
  }
  return "NCCL_DEBUG=WARN makes NCCL say more";
}

constexpr int kOldest = 21900;  // since then, NCCL has all functions that open_nccl() loads

// The codes are 2804 for 2.8.4 and 20901 for 2.9.1.
std::string version_text(int code) {
  const int major = code < 10000 ? code / 1000 : code / 10000;
  const int minor = code < 10000 ? code / 100 % 10 : code / 100 % 100;
  return fmt::format("{}.{}.{}", major, minor, code % 100);
}

int version_code(const NcclApi& nccl) {
  int code = 0;
  static_cast<void>(nccl.get_version(&code));  // it fails for a null pointer only
  return code;
}

std::string file_of(const NcclApi& nccl) {
  Dl_info info{};
  const bool is_known = ::dladdr(reinterpret_cast<void*>(nccl.get_version), &info) != 0;
  return is_known && info.dli_fname != nullptr ? info.dli_fname : "an unknown file";
}

// The library that the system finds first need not be the one whose header the build used.
void refuse_if_old(const NcclApi& nccl) {
  const int code = version_code(nccl);
  if (code >= kOldest) return;
  throw CudaError(fmt::format(
      "[nccl] {} is NCCL {}, and {} or later is needed (the build was made with the "
      "header of {}): name the folder of a newer libnccl.so.2 in LD_LIBRARY_PATH",
      file_of(nccl), version_text(code), version_text(kOldest), version_text(NCCL_VERSION_CODE)));
}

}  // namespace

NcclApi open_nccl(const std::string& file) {
  // NCCL's threads outlive its communicators.
  const DynamicLibrary library(file, DynamicLibrary::Lifetime::kProcess);
  if (!library.is_open()) {
    throw CudaError("[nccl] cannot open NCCL (is its folder in LD_LIBRARY_PATH?): " +
                    library.problem());
  }
  NcclApi nccl{};
  library.load("ncclGetVersion", nccl.get_version);
  nccl.version = version_code(nccl);
  refuse_if_old(nccl);  // it may lack the others
  library.load("ncclGetUniqueId", nccl.get_unique_id);
  library.load("ncclGetErrorString", nccl.get_error_string);
  library.load("ncclGetLastError", nccl.get_last_error);
  library.load("ncclCommInitRankConfig", nccl.comm_init_rank_config);
  library.load("ncclCommDestroy", nccl.comm_destroy);
  library.load("ncclCommAbort", nccl.comm_abort);
  library.load("ncclCommGetAsyncError", nccl.comm_get_async_error);
  library.load("ncclCommRegister", nccl.comm_register);
  library.load("ncclCommDeregister", nccl.comm_deregister);
  library.load("ncclMemAlloc", nccl.mem_alloc);
  library.load("ncclMemFree", nccl.mem_free);
  library.load("ncclAllReduce", nccl.all_reduce);
  library.load("ncclBroadcast", nccl.broadcast);
  library.load("ncclReduce", nccl.reduce);
  library.load("ncclAllGather", nccl.all_gather);
  library.load("ncclReduceScatter", nccl.reduce_scatter);
  library.load("ncclSend", nccl.send);
  library.load("ncclRecv", nccl.recv);
  library.load("ncclGroupStart", nccl.group_start);
  library.load("ncclGroupEnd", nccl.group_end);
  return nccl;
}

std::string error_text(const NcclApi& nccl, ncclResult_t result) {
  const char* last = nccl.get_last_error(nullptr);
  std::string warning = last != nullptr ? last : "";
  while (!warning.empty() && warning.back() == '\n') warning.pop_back();
  return fmt::format("{}{}{} ({})", nccl.get_error_string(result), warning.empty() ? "" : ": ",
                     warning, advice_for(warning));
}

void check_nccl(const NcclApi& nccl, ncclResult_t result, std::string_view action) {
  if (result == ncclSuccess) return;
  throw CudaError(fmt::format("[nccl] {}: {}", action, error_text(nccl, result)));
}

std::string nccl_version() { return version_text(version_code(open_nccl())); }

std::string nccl_path() { return file_of(open_nccl()); }

}  // namespace ddp
