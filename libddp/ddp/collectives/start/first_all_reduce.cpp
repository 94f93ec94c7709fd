// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/first_all_reduce.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/host_collectives.h"

namespace ddp {
namespace {

constexpr std::size_t kElements = (std::size_t{1} << 20) / sizeof(double);
constexpr Timeout kLeastPatience = std::chrono::seconds(10);
constexpr Timeout kMostPatience = std::chrono::minutes(1);
constexpr const char* kCureInHost =
    "PCIe's access control (ACS), an IOMMU or a virtual machine may be in the way of direct "
    "transfers between GPUs: NCCL_P2P_DISABLE=1 avoids them";
constexpr const char* kCureBetweenHosts =
    "The network that NCCL has chosen between the hosts may be in the way: NCCL_DEBUG=INFO shows "
    "it, NCCL_SOCKET_IFNAME names another one, NCCL_IB_DISABLE=1 avoids InfiniBand and RoCE, and "
    "NCCL_NET_GDR_LEVEL=LOC direct transfers between its adapters and GPUs";

std::string cure(const HostLayout& hosts) {
  if (hosts.host_count() == 1) return kCureInHost;
  if (hosts.width() == 1) return kCureBetweenHosts;
  return std::string(kCureBetweenHosts) + ". " + kCureInHost;
}

// Differs between ranks, and between elements that a faulty transfer might exchange. Sums are
// exact.
double value_of(int rank, std::size_t element) {
  constexpr std::size_t kPeriod = 1021;  // a prime
  return static_cast<double>(element % kPeriod) + rank;
}

double sum_of_all(int world_size, std::size_t element) {
  const double ranks = world_size;
  return ranks * value_of(0, element) + ranks * (ranks - 1) / 2;
}

// Describes the wrong sums; empty if all are right.
std::string find_fault(const std::vector<double>& sums, int world_size) {
  std::size_t wrong = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == sum_of_all(world_size, i)) continue;
    ++wrong;
    last = i;
  }
  if (wrong == 0) return "";
  return fmt::format("{} of {} elements are wrong, such as element {}: {} instead of {}", wrong,
                     sums.size(), last, sums[last], sum_of_all(world_size, last));
}

void add_up(ProcessGroup& group, std::vector<double>& values, const HostLayout& hosts) {
  const ScopedTimeout patience(group, std::clamp(group.timeout(), kLeastPatience, kMostPatience));
  try {
    all_reduce_on_host(group, values);
  } catch (const TimeoutError& error) {
    throw TimeoutError(
        fmt::format("{}; this was the start's test all_reduce, in which no data came through. {}",
                    error.what(), cure(hosts)));
  }
}

}  // namespace

void try_first_all_reduce(ProcessGroup& group, const HostLayout& hosts) {
  std::vector<double> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) values[i] = value_of(group.rank(), i);
  add_up(group, values, hosts);
  const std::string fault = find_fault(values, group.world_size());
  if (!fault.empty()) {
    const std::string text = fmt::format("[init] rank {}: in a test all_reduce of 1 MiB, {}. {}",
                                         group.rank(), fault, cure(hosts));
    group.abort(text);
    throw CudaError(text);
  }
  group.barrier().wait_host();  // no rank with wrong values passes it
}

}  // namespace ddp
