// SPDX-License-Identifier: MIT
#include "ddp/collectives/collective.h"

#include "ddp/collectives/hang/operation_labels.h"

namespace ddp {
namespace {

bool is_reduction(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

bool is_rooted(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter;
}

}  // namespace

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kReduce:
      return "reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kGather:
      return "gather";
    case CollectiveKind::kScatter:
      return "scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kSend:
      return "send";
    case CollectiveKind::kRecv:
      return "recv";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

double average_factor(const Collective& operation, std::size_t terms) {
  if (operation.op != ReduceOp::kAverage) return 1;
  const double divisor = operation.context.divisor != nullptr ? *operation.context.divisor
                                                              : static_cast<double>(terms);
  return divisor == 0 ? 0 : 1 / divisor;
}

bool contributes(const Collective& operation, int rank) {
  switch (operation.kind) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kScatter:
      return rank == operation.peer;
    default:
      return operation.kind != CollectiveKind::kBarrier;
  }
}

bool receives(const Collective& operation, int rank) {
  switch (operation.kind) {
    case CollectiveKind::kReduce:
    case CollectiveKind::kGather:
      return rank == operation.peer;
    case CollectiveKind::kBroadcast:
      return rank != operation.peer;
    default:
      return operation.kind != CollectiveKind::kBarrier;
  }
}

CollectiveSignature signature_of(const Collective& collective, std::uint64_t sequence) {
  CollectiveSignature signature;
  signature.sequence = sequence;
  signature.kind = collective.kind;
  signature.dtype = collective.input.dtype;
  // On the root of a gather only `input` is this size on every rank; likewise scatter's `output`.
  const bool output_is_share = collective.kind == CollectiveKind::kScatter ||
                               collective.kind == CollectiveKind::kReduceScatter;
  signature.count = output_is_share ? collective.output.count : collective.input.count;
  if (output_is_share) signature.dtype = collective.output.dtype;
  if (is_reduction(collective.kind)) signature.op = collective.op;
  if (is_rooted(collective.kind)) signature.root = static_cast<std::uint16_t>(collective.peer);
  signature.issuer = collective.context.issuer;
  signature.label = OperationLabels::hash_of(collective.context.label);
  return signature;
}

std::string describe_operands(const CollectiveSignature& signature) {
  if (signature.kind == CollectiveKind::kBarrier) return "";
  std::string text =
      std::string(to_string(signature.dtype)) + "[" + std::to_string(signature.count) + "]";
  if (is_reduction(signature.kind)) text += ", " + std::string(to_string(signature.op));
  if (is_rooted(signature.kind)) text += ", root " + std::to_string(signature.root);
  return text;
}

std::string to_string(const CollectiveSignature& signature) {
  const std::string text =
      "#" + std::to_string(signature.sequence) + " " + std::string(to_string(signature.kind));
  const std::string operands = describe_operands(signature);
  return operands.empty() ? text : text + "(" + operands + ")";
}

}  // namespace ddp
