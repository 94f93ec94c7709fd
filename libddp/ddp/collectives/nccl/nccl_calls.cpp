// SPDX-License-Identifier: MIT
#include "ddp/collectives/nccl/nccl_calls.h"

#include <optional>

namespace ddp {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      break;
  }
  return ncclSum;
}

// Calls between construction and end() start together. NCCL counts the nesting per thread, so the
// group is closed on errors, too.
class Batch {
 public:
  explicit Batch(const NcclApi& nccl) : nccl_(nccl) { DDP_NCCL_CHECK(nccl_, group_start()); }
  ~Batch() {
    if (open_) nccl_.group_end();
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void end() {
    open_ = false;
    DDP_NCCL_CHECK(nccl_, group_end());
  }

 private:
  const NcclApi& nccl_;
  bool open_ = true;
};

void send(const Buffer& buffer, int peer, const NcclTarget& to) {
  DDP_NCCL_CHECK(
      to.nccl, send(buffer.data, buffer.count, nccl_type(buffer.dtype), peer, to.comm, to.stream));
}

void recv(const Buffer& buffer, int peer, const NcclTarget& to) {
  DDP_NCCL_CHECK(
      to.nccl, recv(buffer.data, buffer.count, nccl_type(buffer.dtype), peer, to.comm, to.stream));
}

void send_shares(const Buffer& whole, const NcclTarget& to) {
  const std::size_t share = whole.count / static_cast<std::size_t>(to.world_size);
  for (int peer = 0; peer < to.world_size; ++peer) {
    send(whole.slice(static_cast<std::size_t>(peer) * share, share), peer, to);
  }
}

void recv_shares(const Buffer& whole, const NcclTarget& to) {
  const std::size_t share = whole.count / static_cast<std::size_t>(to.world_size);
  for (int peer = 0; peer < to.world_size; ++peer) {
    recv(whole.slice(static_cast<std::size_t>(peer) * share, share), peer, to);
  }
}

// gather, scatter and all_to_all as sends and receives that start together, as NCCL's manual
// advises ("Point-to-point communication"); NCCL's own calls for them exist only since 2.28. A rank
// also sends to itself, which NCCL turns into a copy.
void exchange(const Collective& collective, const NcclTarget& to) {
  const bool is_root = collective.peer == to.rank;
  Batch batch(to.nccl);
  switch (collective.kind) {
    case CollectiveKind::kGather:
      send(collective.input, collective.peer, to);
      if (is_root) recv_shares(collective.output, to);
      break;
    case CollectiveKind::kScatter:
      if (is_root) send_shares(collective.input, to);
      recv(collective.output, collective.peer, to);
      break;
    default:
      send_shares(collective.input, to);
      recv_shares(collective.output, to);
  }
  batch.end();
}

void enqueue(const Collective& collective, const NcclTarget& to) {
  const NcclApi& nccl = to.nccl;
  const void* in = collective.input.data;
  void* out = collective.output.data;
  const std::size_t count = collective.input.count;
  const ncclDataType_t type = nccl_type(collective.input.dtype);
  const ncclRedOp_t op = nccl_op(collective.op);
  const int peer = collective.peer;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce:
      return DDP_NCCL_CHECK(nccl, all_reduce(in, out, count, type, op, to.comm, to.stream));
    case CollectiveKind::kBroadcast:
      return DDP_NCCL_CHECK(nccl, broadcast(in, out, count, type, peer, to.comm, to.stream));
    case CollectiveKind::kReduce:
      return DDP_NCCL_CHECK(nccl, reduce(in, out, count, type, op, peer, to.comm, to.stream));
    case CollectiveKind::kAllGather:
      return DDP_NCCL_CHECK(nccl, all_gather(in, out, count, type, to.comm, to.stream));
    case CollectiveKind::kReduceScatter:
      return DDP_NCCL_CHECK(
          nccl, reduce_scatter(in, out, collective.output.count, type, op, to.comm, to.stream));
    case CollectiveKind::kSend:
      return send(collective.input, peer, to);
    case CollectiveKind::kRecv:
      return recv(collective.output, peer, to);
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
    case CollectiveKind::kAllToAll:
      return exchange(collective, to);
    case CollectiveKind::kBarrier:
      break;
  }
  const Buffer& element = to.barrier_element;
  enqueue({CollectiveKind::kAllReduce, element, element, ReduceOp::kSum, 0}, to);
}

bool does_nothing(const Collective& collective) {
  return collective.kind != CollectiveKind::kBarrier && signature_of(collective, 0).count == 0;
}

}  // namespace

void enqueue_on_nccl(std::span<const Collective> collectives, const NcclTarget& to) {
  std::optional<Batch> batch;
  if (collectives.size() > 1) batch.emplace(to.nccl);
  for (const Collective& collective : collectives) {
    if (!does_nothing(collective)) enqueue(collective, to);
  }
  if (batch) batch->end();
}

}  // namespace ddp
