// SPDX-License-Identifier: MIT
#include "all_reduce/bound.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/time.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::bench {

struct alignas(64) Bound::Arrivals {
  std::atomic<std::uint32_t> count;
};

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLineElements = 16;  // so that no two ranks write to one cache line
constexpr int kSpins = 1000;
constexpr Timeout kPatience = std::chrono::seconds(60);

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

FileDescriptor make_file(std::size_t size_bytes) {
  FileDescriptor file(::memfd_create("bench_all_reduce", MFD_CLOEXEC));
  if (!file.is_open() || ::ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0) {
    throw SystemError("cannot make a memory file of " + std::to_string(size_bytes) + " bytes",
                      errno);
  }
  return file;
}

Allocation map(const FileDescriptor& file, std::size_t size_bytes) {
  void* const data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) throw SystemError("cannot map a memory file", errno);
  (void)::madvise(data, size_bytes, MADV_HUGEPAGE);  // if files may have huge pages
  return {data, size_bytes, [size_bytes](void* memory) { ::munmap(memory, size_bytes); }};
}

// Rank 0 creates the file and keeps it open until all ranks have mapped it.
Allocation map_one_file(Store& store, int rank, int ranks, std::size_t size_bytes) {
  FileDescriptor file;
  if (rank == 0) {
    file = make_file(size_bytes);
    store.set("file", "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get()));
  } else {
    const std::string path = store.get("file");
    file = FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.is_open()) throw SystemError("cannot open " + path, errno);
  }
  Allocation memory = map(file, size_bytes);
  if (store.add("mapped", 1) == ranks) store.set("all mapped", "");
  (void)store.get("all mapped");
  return memory;
}

}  // namespace

Bound::Bound(Store& store, int rank, int ranks, std::size_t max_bytes)
    : rank_(rank),
      ranks_(ranks),
      spins_(ranks <= ::sysconf(_SC_NPROCESSORS_ONLN) ? kSpins : 0),
      operand_bytes_(round_up(max_bytes, kHugePage)),
      memory_(map_one_file(store, rank, ranks,
                           kHugePage + static_cast<std::size_t>(ranks) * operand_bytes_)),
      shares_(static_cast<std::size_t>(ranks)) {}

Bound::Arrivals& Bound::arrivals(int rank) const {
  return static_cast<Arrivals*>(memory_.data())[rank];
}

Buffer Bound::operand(int rank) const {
  std::byte* const first = static_cast<std::byte*>(memory_.data()) + kHugePage;
  return {first + static_cast<std::size_t>(rank) * operand_bytes_, operand_bytes_ / sizeof(float),
          DType::kFloat32, kCpuDevice};
}

void Bound::meet() {
  arrivals(rank_).count.store(++meetings_, std::memory_order_release);
  for (int rank = 0; rank < ranks_; ++rank) wait_for(rank);
}

// The counter may wrap around, so it is compared by difference, which is 0 or 1 once the rank has
// arrived: no rank can be two meetings ahead.
void Bound::wait_for(int rank) const {
  const auto has_come = [this, &count = arrivals(rank).count] {
    return count.load(std::memory_order_acquire) - meetings_ <= 1;
  };
  for (int i = 0; i < spins_; ++i) {
    if (has_come()) return;
  }
  const Deadline deadline = Deadline::after(kPatience);
  while (!has_come()) {
    if (deadline.passed()) {
      throw TimeoutError("[bound] meeting on rank " + std::to_string(rank_) + ": rank " +
                         std::to_string(rank) + " has not come for " +
                         std::to_string(kPatience.count()) + " ms");
    }
    ::sched_yield();
  }
}

void Bound::all_reduce(std::size_t count) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::size_t share = round_up((count + ranks - 1) / ranks, kLineElements);
  const std::size_t begin = std::min(count, static_cast<std::size_t>(rank_) * share);
  for (std::size_t i = 0; i < ranks; ++i) {
    shares_[i] = operand(static_cast<int>(i)).slice(begin, std::min(share, count - begin));
  }
  meet();  // all ranks have written their operands
  cpu::reduce_terms(shares_, shares_, ReduceOp::kSum, 1);
  meet();  // all ranks have summed their shares
}

}  // namespace ddp::bench
