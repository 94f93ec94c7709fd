// SPDX-License-Identifier: MIT
//
// A libnccl whose collectives run on a stream of the emulation, through shared memory. Ranks are
// reduced in ascending order. Like NCCL, it refuses ranks that share a GPU without different
// NCCL_HOSTIDs; it checks nothing else.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda_emulation/nccl_world.h"
#include "cuda_emulation/stream.h"

using ddp::Buffer;
using ddp::DType;
using ddp::ReduceOp;
using ddp::SharedMemory;
using ddp::emulation::World;

struct ncclComm {
  std::shared_ptr<World> world;  // shared with the work on streams
};

namespace {

thread_local std::string last_error;

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return DType::kFloat16;
    case ncclBfloat16:
      return DType::kBFloat16;
    case ncclFloat32:
      return DType::kFloat32;
    case ncclFloat64:
      return DType::kFloat64;
    case ncclInt32:
      return DType::kInt32;
    case ncclInt64:
      return DType::kInt64;
    default:
      return DType::kUInt8;
  }
}

ReduceOp op_of(ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return ReduceOp::kProduct;
    case ncclMin:
      return ReduceOp::kMin;
    case ncclMax:
      return ReduceOp::kMax;
    default:
      return ReduceOp::kSum;
  }
}

Buffer operand(const void* data, std::size_t count, ncclDataType_t type) {
  return {const_cast<void*>(data), count, dtype_of(type)};
}

// A collective, or one side of a message, which has a peer.
struct Operation {
  std::shared_ptr<World> world;
  cudaStream_t stream;
  std::function<void(World&)> collective = nullptr;
  Buffer message{};
  int peer = -1;
  bool is_send = false;
  std::size_t done = 0;  // transferred bytes of the message

  [[nodiscard]] bool is_done() const { return done == message.size_bytes(); }
  [[nodiscard]] bool is_same_way_as(const Operation& other) const {
    return world == other.world && peer == other.peer && is_send == other.is_send;
  }
  std::size_t move_some() {
    const std::size_t part =
        is_send ? world->try_send(message, done, peer) : world->try_recv(message, done, peer);
    done += part;
    return part;
  }
};

// Transfers all messages of a group concurrently; messages between the same two ranks in order.
void exchange(std::vector<Operation>& messages) {
  for (;;) {
    bool is_done = true, has_moved = false;
    for (auto message = messages.begin(); message != messages.end(); ++message) {
      if (message->is_done()) continue;
      is_done = false;
      const bool is_first = std::none_of(messages.begin(), message, [&](const Operation& earlier) {
        return !earlier.is_done() && earlier.is_same_way_as(*message);
      });
      has_moved |= is_first && message->move_some() > 0;
    }
    if (is_done) return;
    if (!has_moved) messages.front().world->pause();
  }
}

void run(std::vector<Operation>& operations) {
  std::vector<Operation> messages;
  try {
    for (Operation& operation : operations) {
      if (operation.collective) {
        operation.collective(*operation.world);
      } else {
        messages.push_back(operation);
      }
    }
    exchange(messages);
  } catch (const World::Aborted&) {
  }
}

thread_local int group_depth = 0;
thread_local std::vector<Operation> group;

ncclResult_t enqueue(std::vector<Operation> operations) {
  if (operations.empty()) return ncclSuccess;
  auto& queue = ddp::emulation::queue_of(operations.front().stream);
  queue.push([operations = std::move(operations)]() mutable { run(operations); });
  return ncclSuccess;
}

ncclResult_t submit(Operation operation) {
  group.push_back(std::move(operation));
  return group_depth > 0 ? ncclSuccess : enqueue(std::exchange(group, {}));
}

// The identity by which NCCL tells GPUs apart.
std::string this_gpu() {
  const char* host = std::getenv("NCCL_HOSTID");
  std::array<char, 64> id{};
  int device = 0;
  cudaGetDevice(&device);
  cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device);
  return std::string(id.data()) + (host == nullptr ? "" : std::string(" of host ") + host);
}

// True if the emulation must behave like a system that forbids NCCL's newer way of sharing memory.
bool cumem_fails() {
  const char* const asked_to_fail = std::getenv("DDP_EMULATED_CUMEM");
  const char* const is_enabled = std::getenv("NCCL_CUMEM_ENABLE");
  return asked_to_fail != nullptr && (is_enabled == nullptr || std::strcmp(is_enabled, "0") != 0);
}

// Keeps the memory until the process ends, so that communicators can open it by name.
void keep(std::shared_ptr<SharedMemory> memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<SharedMemory>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

// The memory that communicators know. It must not be freed before it is deregistered, or before the
// communicator is closed, which forgets it.
class Registrations {
 public:
  void* add(ncclComm_t communicator, const void* data) {
    const std::lock_guard lock(mutex_);
    all_.push_back({communicator, data, ++last_});
    return reinterpret_cast<void*>(last_);
  }
  // False if the communicator has no such registration.
  bool remove(ncclComm_t communicator, void* handle) {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    return remove_if([&](const Registration& each) {
      return each.communicator == communicator && each.number == number;
    });
  }
  void forget(ncclComm_t communicator) {
    remove_if([&](const Registration& each) { return each.communicator == communicator; });
  }
  bool contains(const void* data) {
    const std::lock_guard lock(mutex_);
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Registration& each) { return each.data == data; });
  }

 private:
  struct Registration {
    ncclComm_t communicator;
    const void* data;
    std::uintptr_t number;
  };

  template <class Predicate>
  bool remove_if(Predicate predicate) {
    const std::lock_guard lock(mutex_);
    return std::erase_if(all_, predicate) > 0;
  }

  std::mutex mutex_;
  std::vector<Registration> all_;
  std::uintptr_t last_ = 0;
};

// Never destroyed, like what it counts.
Registrations& registrations() {
  static auto* const all = new Registrations;
  return *all;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto memory = World::create_memory();
  static_assert(sizeof(SharedMemory::Name) <= sizeof id->internal);
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &memory->name(), sizeof(SharedMemory::Name));
  keep(std::move(memory));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "CPU emulation";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  if (cumem_fails()) {
    last_error = "Cuda failure 800 'operation not permitted'";
    return ncclUnhandledCudaError;
  }
  SharedMemory::Name name;
  std::memcpy(static_cast<void*>(&name), id.internal, sizeof name);
  try {
    if (size > World::kMaxRanks) throw std::runtime_error("too many ranks for the emulation");
    *communicator =
        new ncclComm{std::make_shared<World>(SharedMemory::open(name), rank, size, this_gpu())};
    return ncclSuccess;
  } catch (const std::exception& error) {
    last_error = error.what();
    return ncclInvalidUsage;
  }
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  registrations().forget(communicator);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->world->abort();
  return ncclCommDestroy(communicator);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* result) {
  *result = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t communicator, void* data, size_t, void** handle) {
  *handle = registrations().add(communicator, data);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t communicator, void* handle) {
  return registrations().remove(communicator, handle) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void** data, size_t size_bytes) {
  return cudaMalloc(data, size_bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* data) {
  if (registrations().contains(data)) {
    std::fputs("[cuda emulation] ncclMemFree() of registered memory\n", stderr);
    std::abort();
  }
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return submit({communicator->world, stream, [=](World& world) {
                   world.all_reduce(operand(in, count, type), operand(out, count, type), op_of(op));
                 }});
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return submit({communicator->world, stream, [=](World& world) {
                   world.broadcast(operand(in, count, type), operand(out, count, type), root);
                 }});
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  return submit({communicator->world, stream, [=](World& world) {
                   world.reduce(operand(in, count, type), operand(out, count, type), op_of(op),
                                root);
                 }});
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return submit({communicator->world, stream, [=](World& world) {
                   world.all_gather(operand(in, count, type), operand(out, count, type));
                 }});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return submit({communicator->world, stream, [=](World& world) {
                   world.reduce_scatter(operand(in, count, type), operand(out, count, type),
                                        op_of(op));
                 }});
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return submit({.world = communicator->world,
                 .stream = stream,
                 .message = operand(in, count, type),
                 .peer = peer,
                 .is_send = true});
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return submit({.world = communicator->world,
                 .stream = stream,
                 .message = operand(out, count, type),
                 .peer = peer});
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return --group_depth > 0 ? ncclSuccess : enqueue(std::exchange(group, {}));
}
