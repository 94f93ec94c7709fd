// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl_api.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <string_view>

#include "ddp/base/error.h"
#include "ddp/collectives/nccl_process_group.h"

namespace ddp {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

// What dlerror() says; never null.
std::string linker_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw CudaError(fmt::format("[nccl] find {} in {}: {}", name, kLibrary, linker_error()));
  }
}

struct Hint {
  std::string_view warning;  // a part of NCCL's text
  std::string_view advice;
};

constexpr Hint kHints[] = {
    {"Duplicate GPU", "two ranks use one GPU: start at most one worker per GPU"},
    {"shared memory", "/dev/shm may be too small: in a container, docker run --shm-size=1g"},
    {"no socket interface", "name the network interface in NCCL_SOCKET_IFNAME"},
    {"NCCL version", "all ranks must load the same libnccl.so.2"},
};

std::string_view advice_for(std::string_view warning) {
  for (const Hint& hint : kHints) {
    if (warning.find(hint.warning) != std::string_view::npos) return hint.advice;
  }
  return "NCCL_DEBUG=WARN tells more";
}

}  // namespace

NcclApi open_nccl() {
  // RTLD_NODELETE: NCCL's threads outlive its communicators.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    throw CudaError(fmt::format("[nccl] open {}: {}", kLibrary, linker_error()));
  }
  NcclApi nccl{};
  load(library, "ncclGetVersion", nccl.get_version);
  load(library, "ncclGetUniqueId", nccl.get_unique_id);
  load(library, "ncclGetErrorString", nccl.get_error_string);
  load(library, "ncclGetLastError", nccl.get_last_error);
  load(library, "ncclCommInitRankConfig", nccl.comm_init_rank_config);
  load(library, "ncclCommDestroy", nccl.comm_destroy);
  load(library, "ncclCommAbort", nccl.comm_abort);
  load(library, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  load(library, "ncclCommRegister", nccl.comm_register);
  load(library, "ncclCommDeregister", nccl.comm_deregister);
  load(library, "ncclMemAlloc", nccl.mem_alloc);
  load(library, "ncclMemFree", nccl.mem_free);
  load(library, "ncclAllReduce", nccl.all_reduce);
  load(library, "ncclBroadcast", nccl.broadcast);
  load(library, "ncclReduce", nccl.reduce);
  load(library, "ncclAllGather", nccl.all_gather);
  load(library, "ncclReduceScatter", nccl.reduce_scatter);
  load(library, "ncclSend", nccl.send);
  load(library, "ncclRecv", nccl.recv);
  load(library, "ncclGroupStart", nccl.group_start);
  load(library, "ncclGroupEnd", nccl.group_end);
  return nccl;
}

std::string error_text(const NcclApi& nccl, ncclResult_t result) {
  const char* last = nccl.get_last_error(nullptr);
  std::string warning = last != nullptr ? last : "";
  while (!warning.empty() && warning.back() == '\n') warning.pop_back();
  return fmt::format("{}{}{} ({})", nccl.get_error_string(result), warning.empty() ? "" : ": ",
                     warning, advice_for(warning));
}

void check_nccl(const NcclApi& nccl, ncclResult_t result, const std::string& action) {
  if (result == ncclSuccess) return;
  throw CudaError(fmt::format("[nccl] {}: {}", action, error_text(nccl, result)));
}

std::string nccl_version() {
  const NcclApi nccl = open_nccl();
  int code = 0;
  DDP_NCCL_CHECK(nccl, get_version(&code));
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace ddp
