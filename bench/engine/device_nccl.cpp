// SPDX-License-Identifier: MIT
//
// What NCCL itself takes of the host's time, without this library: the same reductions as in
// device_host_time.cpp.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/nccl/nccl_api.h"
#include "engine/device_parts.h"
#include "engine/subject.h"
#include "support/program.h"

namespace ddp::bench {
namespace {

ncclComm_t connect(ProcessGroup& group, const NcclApi& nccl) {
  ncclUniqueId id{};
  if (group.rank() == 0) DDP_NCCL_CHECK(nccl, get_unique_id(&id));
  const std::string bytes = broadcast_text(group, {id.internal, sizeof id.internal}, 0);
  bytes.copy(id.internal, sizeof id.internal);
  ncclConfig_t options = NCCL_CONFIG_INITIALIZER;
  options.blocking = 1;
  ncclComm_t comm = nullptr;
  DDP_NCCL_CHECK(nccl,
                 comm_init_rank_config(&comm, group.world_size(), id, group.rank(), &options));
  return comm;
}

}  // namespace

std::vector<double> nccl_launch_times(ProcessGroup& group, int rounds) {
  constexpr std::size_t kModelBytes =
      HostTimeSubject::kParameters * HostTimeSubject::kParameterBytes;
  constexpr std::size_t kBuckets = kModelBytes / HostTimeSubject::kBucketBytes;
  constexpr std::size_t kCount = HostTimeSubject::kBucketBytes / sizeof(float);
  const cu::DeviceGuard guard(group.device());
  const NcclApi nccl = open_nccl();
  const ncclComm_t comm = connect(group, nccl);
  const cu::OwnedStream stream(group.device());
  const Allocation memory = cu::allocate_device(HostTimeSubject::kBucketBytes, group.device());
  cu::fill({memory.data(), kCount, DType::kFloat32, group.device()}, 0, stream.view());
  const auto reduce_all = [&] {
    for (std::size_t b = 0; b < kBuckets; ++b) {
      DDP_NCCL_CHECK(nccl, all_reduce(memory.data(), memory.data(), kCount, ncclFloat32, ncclSum,
                                      comm, stream.view().native));
    }
  };
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {  // the first one connects
    const double us = duration_of<std::chrono::microseconds>(reduce_all);
    if (round >= 0) times.push_back(us / kBuckets);
    stream.synchronize();
  }
  DDP_NCCL_CHECK(nccl, comm_destroy(comm));
  return times;
}

}  // namespace ddp::bench
