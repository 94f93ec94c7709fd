// SPDX-License-Identifier: MIT
//
// Counts what a step of the engine asks of CUDA, NCCL and the heap. This program overrides
// functions of the emulated runtime and of the C library; it counts what the thread that makes the
// step calls, except for what the emulation itself calls.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "ddp/ddp.h"
#include "gpu/nccl_ranks.h"

using namespace ddp;
using namespace std::chrono_literals;

namespace {

struct Counts {
  int records = 0;
  int stream_waits = 0;
  int copies = 0;
  int kernels = 0;
  int nccl_calls = 0;
  int host_waits = 0;  // synchronizations with an event, a stream or the device, and sleeps
  int device_allocations = 0;
  int allocations = 0;  // of the heap
  int locks = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& counts) {
    return out << counts.records << " records, " << counts.stream_waits << " stream waits, "
               << counts.copies << " copies, " << counts.kernels << " kernels, "
               << counts.nccl_calls << " NCCL calls, " << counts.host_waits << " host waits, "
               << counts.device_allocations << " device allocations, " << counts.allocations
               << " allocations, " << counts.locks << " locks";
  }
};

constinit thread_local Counts* counting = nullptr;  // null while nothing is counted

// While it lives, nothing is counted: the emulation is at work.
class Uncounted {
 public:
  Uncounted() : before_(std::exchange(counting, nullptr)) {}
  ~Uncounted() { counting = before_; }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  Counts* before_;
};

void count(int Counts::*what) {
  if (counting != nullptr) ++(counting->*what);
}

// Whether this is code of the emulated runtime or NCCL.
bool is_of_emulation(void* code) {
  const Uncounted uncounted;
  Dl_info info{};
  if (dladdr(code, &info) == 0) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libcuda_emulation") || file.starts_with("libnccl");
}

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define DDP_COUNTED(what, name, parameters, arguments) \
  cudaError_t name parameters {                        \
    count(&Counts::what);                              \
    const Uncounted uncounted;                         \
    return next(&name, #name) arguments;               \
  }

DDP_COUNTED(records, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
DDP_COUNTED(stream_waits, cudaStreamWaitEvent,
            (cudaStream_t stream, cudaEvent_t event, unsigned flags), (stream, event, flags))
DDP_COUNTED(host_waits, cudaEventSynchronize, (cudaEvent_t event), (event))
DDP_COUNTED(host_waits, cudaStreamSynchronize, (cudaStream_t stream), (stream))
DDP_COUNTED(host_waits, cudaDeviceSynchronize, (), ())
DDP_COUNTED(copies, cudaMemcpyAsync,
            (void* target, const void* source, size_t size_bytes, cudaMemcpyKind kind,
             cudaStream_t stream),
            (target, source, size_bytes, kind, stream))
DDP_COUNTED(copies, cudaMemsetAsync,
            (void* target, int value, size_t size_bytes, cudaStream_t stream),
            (target, value, size_bytes, stream))
DDP_COUNTED(device_allocations, cudaMalloc, (void** data, size_t size_bytes), (data, size_bytes))
DDP_COUNTED(device_allocations, cudaHostAlloc, (void** data, size_t size_bytes, unsigned flags),
            (data, size_bytes, flags))

namespace ddp::emulation {

cudaError_t launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                   const std::function<void()>& thread) {
  count(&Counts::kernels);
  if (counting != nullptr) --counting->allocations;  // of `thread`, in the emulation's launch.cuh
  const Uncounted uncounted;
  return next(&launch, "_ZN3ddp9emulation6launchEjjP11CUstream_stRKSt8functionIFvvEE")(
      blocks, threads, stream, thread);
}

class Queue;

// The emulated NCCL calls this once for each operation that it enqueues.
[[gnu::visibility("default")]] Queue& queue_of(cudaStream_t stream) {
  count(&Counts::nccl_calls);
  const Uncounted uncounted;
  return next(&queue_of, "_ZN3ddp9emulation8queue_ofEP11CUstream_st")(stream);
}

}  // namespace ddp::emulation

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const lock = next(&pthread_mutex_lock, "pthread_mutex_lock");
  if (counting != nullptr && !is_of_emulation(__builtin_return_address(0))) {
    count(&Counts::locks);
  }
  return lock(mutex);
}

// A wait that asks an event again and again sleeps in between.
extern "C" int nanosleep(const timespec* duration, timespec* left) {
  count(&Counts::host_waits);
  return next(&nanosleep, "nanosleep")(duration, left);
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (counting != nullptr && !is_of_emulation(__builtin_return_address(0))) {
    count(&Counts::allocations);
  }
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (counting != nullptr && !is_of_emulation(__builtin_return_address(0))) {
    count(&Counts::allocations);
  }
  const Uncounted uncounted;
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
// Not inline, since GCC 14 warns of free() for what operator new has returned.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace {

constexpr int kBuckets = 8;
constexpr std::size_t kElements = 1000;

// A model of parameters that are a bucket each.
class Model {
 public:
  explicit Model(Device device) {
    for (int i = 0; i < kBuckets; ++i) {
      memory_.push_back(cu::allocate_device(kElements * sizeof(float), device));
      parameters_.push_back({"p" + std::to_string(i),
                             {std::int64_t{kElements}},
                             {memory_.back().data(), kElements, DType::kFloat32, device}});
    }
  }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  std::vector<Allocation> memory_;
  std::vector<Parameter> parameters_;
};

// Of a step in the middle of a training whose device keeps up.
Counts count_step(ProcessGroup& group, Stream stream, bool fold_scale) {
  const Model model(group.device());
  DistributedDataParallel ddp(group.shared_from_this(), model.parameters(),
                              {.buckets = {.bucket_bytes_cap = 1, .min_buckets = kBuckets},
                               .nominal_samples = 1,
                               .fold_scale = fold_scale,
                               .fingerprint_every = 0});
  if (ddp.layout().buckets.size() != kBuckets) throw std::logic_error("another layout");
  const auto step = [&] {
    (void)ddp.begin_step();
    for (std::size_t i = kBuckets; i-- > 0;) ddp.mark_ready(i, stream);
    ddp.wait(stream);
    (void)ddp.should_step();
  };
  for (int i = 0; i < 6; ++i) {
    step();
    cu::synchronize(stream);
  }
  Counts counts;
  counting = &counts;
  step();
  counting = nullptr;
  group.barrier(stream).wait(stream);
  cu::synchronize(stream);
  return counts;
}

}  // namespace

TEST_CASE("a step of several ranks takes one call of NCCL a bucket and no wait of the host",
          "[emulation]") {
  const bool fold_scale = GENERATE(true, false);
  std::mutex mutex;
  std::vector<Counts> ranks;
  test::run_nccl_ranks(60s, [&](ProcessGroup& group, Stream stream) {
    const Counts counts = count_step(group, stream, fold_scale);
    const std::lock_guard lock(mutex);
    ranks.push_back(counts);
  });
  REQUIRE(ranks.size() == 2);
  const int operations = kBuckets + 1;  // with the control vector
  Counts expected;
  // Of an operation: the producer's, and that it has ended. The control vector is also sent and
  // arrives; backward and the step end.
  expected.records = 2 * operations + 4;
  // Of an operation's stream. The copy of the control vector waits for it, and the consumer for
  // that copy and for the last bucket.
  expected.stream_waits = operations + 3;
  expected.copies = 2;                                 // the control vector, there and back
  expected.kernels = 1 + (fold_scale ? 0 : kBuckets);  // the divisor's reciprocal
  expected.nccl_calls = operations;
  CHECK(ranks[0] == expected);
  CHECK(ranks[1] == expected);
}

TEST_CASE("a step of a world of one costs CUDA nothing", "[emulation]") {
  const auto group = init_process_group(
      {.device = DeviceChoice::kCuda, .rank = 0, .world_size = 1, .local_rank = 0});
  const cu::OwnedStream stream(group->device());
  CHECK(count_step(*group, stream.view(), GENERATE(true, false)) == Counts());
}
