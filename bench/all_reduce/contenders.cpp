// SPDX-License-Identifier: MIT
#include "all_reduce/contenders.h"

#include <chrono>
#include <utility>

#include "all_reduce/bound.h"
#include "all_reduce/checker.h"
#include "ddp/base/error.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/init.h"
#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/store/prefix_store.h"
#include "support/pinning.h"
#include "support/program.h"

namespace ddp::bench {
namespace {

Buffer operand(const Contender& contender, std::size_t bytes) {
  return contender.memory.slice(0, bytes / sizeof(float));
}

// Assigns CPUs to ranks round robin.
int cpu_of(int rank) {
  const std::vector<int> cpus = affinity_cpus();
  return cpus[static_cast<std::size_t>(rank) % cpus.size()];
}

}  // namespace

Contenders::Contenders(std::size_t max_bytes)
    : shm_(init_process_group({.backend = Backend::kShm})),
      tcp_(init_process_group({.backend = Backend::kTcp})) {
  add_bound(max_bytes);
  add("shm", *shm_, shm_->allocate(max_bytes));
  add("user", *shm_, allocate_host(max_bytes));
  // Each rank is pinned to a CPU, as mpirun does it. Otherwise, on a busy host, two ranks that woke
  // on the same CPU would wait for each other.
  add("tcp", *tcp_, tcp_->allocate(max_bytes));
  for (Contender& each : all_) each.cpu = cpu_of(shm_->rank());
}

void Contenders::add_bound(std::size_t max_bytes) {
  PrefixStore store(shm_->fresh_name("bound"), shm_->store().clone());
  const auto bound = std::make_shared<Bound>(store, shm_->rank(), shm_->world_size(), max_bytes);
  all_.push_back(
      {.name = "bound",
       .memory = bound->memory(),
       .meet = [bound] { bound->meet(); },
       .all_reduce = [bound](const Buffer& buffer) { bound->all_reduce(buffer.count); }});
}

void Contenders::add(const std::string& name, ProcessGroup& group, Allocation memory) {
  all_.push_back(
      {.name = name,
       .memory = {memory.data(), memory.size_bytes() / sizeof(float), DType::kFloat32, kCpuDevice},
       .meet = [&group] { group.barrier().wait(); },
       .all_reduce = [&group](const Buffer& buffer) { group.all_reduce(buffer).wait(); }});
  memory_.push_back(std::move(memory));
}

double microseconds(const Contender& contender, std::size_t bytes, int calls) {
  const Buffer buffer = operand(contender, bytes);
  std::optional<Pinned> pinned;
  if (contender.cpu) pinned.emplace(*contender.cpu);
  contender.meet();
  return duration_of<std::chrono::microseconds>([&] {
           for (int i = 0; i < calls; ++i) contender.all_reduce(buffer);
         }) /
         calls;
}

void check(const Contender& contender, std::size_t bytes, const ProcessGroup& ranks) {
  const Buffer buffer = operand(contender, bytes);
  Checker checker(kCpuDevice);
  checker.fill(buffer, ranks.rank(), ReduceOp::kSum);
  contender.all_reduce(buffer);
  const std::size_t wrong = checker.count_wrong(buffer, ranks.world_size(), ReduceOp::kSum);
  if (wrong > 0) {
    throw Error("[" + contender.name + "] all_reduce on rank " + std::to_string(ranks.rank()) +
                ": " + std::to_string(wrong) + " wrong elements in " + to_string(buffer));
  }
  fill(buffer, 0);
}

}  // namespace ddp::bench
