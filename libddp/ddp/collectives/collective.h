// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ddp/base/buffer.h"
#include "ddp/base/reduce_op.h"
#include "ddp/base/stream.h"
#include "ddp/base/time.h"

namespace ddp {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kGather,
  kScatter,
  kAllToAll,
  kSend,
  kRecv,
  kBarrier,
};

// "all_reduce", "send", ...
[[nodiscard]] std::string_view to_string(CollectiveKind kind);

// True for send and recv, which are between two ranks.
[[nodiscard]] constexpr bool is_transfer(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kRecv;
}

// What holds for a call besides its arguments, as the scopes around it say (group_scopes.h).
struct OperationContext {
  Timeout timeout{};                // how long the operation waits for other ranks
  std::uint64_t part_of = 0;        // see ScopedPart
  std::uint32_t label = 0;          // what it is for: OperationLabels::Label
  std::uint8_t issuer = 0;          // see ScopedIssuer
  const double* divisor = nullptr;  // of kAverage: see ScopedDivisor; null stands for world_size
};

// One call of a collective. For a collective that works in place, input ==
// output. `peer` is the root, the source or the destination.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Buffer input;
  Buffer output;
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;
  Stream producer = {};  // the operation runs behind this stream's work
  OperationContext context = {};
};

// What an operation whose op is kAverage multiplies the sum of so many terms by; 1 for another op.
// To be called when the operation runs.
[[nodiscard]] double average_factor(const Collective& operation, std::size_t terms);

// True if other ranks may need this rank's input: in a broadcast or scatter the root's, in a
// barrier nobody's. Likewise, whether the operation writes this rank's output: in a reduce or
// gather the root's, in a broadcast everybody's but the root's. Not for send and recv.
[[nodiscard]] bool contributes(const Collective& operation, int rank);
[[nodiscard]] bool receives(const Collective& operation, int rank);

// What must be equal on all ranks, small enough to travel with every message; except for the label,
// which only tells what the operation is for.
struct CollectiveSignature {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  // elements of this rank's smaller operand
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t issuer = 0;  // see ScopedIssuer
  std::uint16_t root = 0;   // a job has at most 2^16 ranks
  std::uint16_t label = 0;  // OperationLabels::hash_of() it; 0: none

  friend bool operator==(const CollectiveSignature& a, const CollectiveSignature& b) {
    return a.sequence == b.sequence && a.count == b.count && a.kind == b.kind &&
           a.dtype == b.dtype && a.op == b.op && a.issuer == b.issuer && a.root == b.root;
  }
};

[[nodiscard]] CollectiveSignature signature_of(const Collective& collective,
                                               std::uint64_t sequence);

// "float32[1024], sum"; empty for a barrier.
[[nodiscard]] std::string describe_operands(const CollectiveSignature& signature);
// "#7 all_reduce(float32[1024], sum)".
[[nodiscard]] std::string to_string(const CollectiveSignature& signature);

}  // namespace ddp
