// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/collectives/group_config.h"
#include "ddp/collectives/nccl/nccl_api.h"

namespace ddp::test {

// An NCCL whose communicators connect at once and do nothing.
inline NcclApi fake_nccl() {
  static int communicator = 0;
  NcclApi nccl{};
  nccl.get_unique_id = [](ncclUniqueId*) { return ncclSuccess; };
  nccl.comm_init_rank_config = [](ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t*) {
    *comm = reinterpret_cast<ncclComm_t>(&communicator);  // any non-null pointer
    return ncclSuccess;
  };
  nccl.comm_abort = [](ncclComm_t) { return ncclSuccess; };
  nccl.get_error_string = [](ncclResult_t) { return "what NCCL says"; };
  nccl.get_last_error = [](ncclComm_t) { return ""; };
  return nccl;
}

// The configuration for a rank's communicator whose peers are not there: they would be waited for.
inline GroupConfig without_peers(GroupConfig config) {
  config.world_size = 1;
  return config;
}

}  // namespace ddp::test
