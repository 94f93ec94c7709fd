// SPDX-License-Identifier: MIT
#include "ddp/collectives/check/operand_check.h"

#include <stdexcept>

#include "ddp/base/overlap.h"
#include "ddp/collectives/group_names.h"

namespace ddp {
namespace {

class Check {
 public:
  Check(const Collective& call, const Caller& caller) : call_(call), caller_(caller) {}

  void run() const {
    switch (call_.kind) {
      case CollectiveKind::kAllReduce:
        check_buffer(call_.input);
        return check_op();
      case CollectiveKind::kBroadcast:
        check_buffer(call_.input);
        return check_peer();
      case CollectiveKind::kReduce:
        check_buffer(call_.input);
        check_peer();
        return check_op();
      case CollectiveKind::kAllGather:
        return check_share(call_.output, call_.input);
      case CollectiveKind::kReduceScatter:
        check_share(call_.input, call_.output);
        return check_op();
      case CollectiveKind::kGather:
        check_peer();
        return is_root() ? check_share(call_.output, call_.input) : check_buffer(call_.input);
      case CollectiveKind::kScatter:
        check_peer();
        return is_root() ? check_share(call_.input, call_.output) : check_buffer(call_.output);
      case CollectiveKind::kAllToAll:
        return check_shares();
      case CollectiveKind::kSend:
        return check_transfer("cannot send to itself");
      case CollectiveKind::kRecv:
        return check_transfer("cannot receive from itself");
      case CollectiveKind::kBarrier:
        return;
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument(std::string(to_string(call_.kind)) + of_group(caller_.group) +
                                ": " + why);
  }

  [[nodiscard]] bool is_root() const { return call_.peer == caller_.rank; }

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(caller_.world_size); }

  void check_buffer(const Buffer& buffer) const {
    if (buffer.count > 0 && buffer.data == nullptr) refuse(to_string(buffer) + " has no memory");
    if (buffer.device != caller_.device) {
      refuse(to_string(buffer) + ", but the group is on " + to_string(caller_.device));
    }
  }

  void check_peer() const {
    if (call_.peer >= 0 && call_.peer < caller_.world_size) return;
    refuse("rank " + std::to_string(call_.peer) + " is not in a group of " +
           std::to_string(caller_.world_size));
  }

  void check_transfer(const char* to_itself) const {
    check_buffer(call_.input);
    check_peer();
    if (is_root()) refuse("rank " + std::to_string(call_.peer) + " " + to_itself);
  }

  void check_op() const {
    if (call_.op != ReduceOp::kAverage || is_floating_point(call_.input.dtype)) return;
    refuse("average of " + std::string(to_string(call_.input.dtype)) + " is not defined; use sum");
  }

  void check_input_and_output() const {
    check_buffer(call_.input);
    check_buffer(call_.output);
    if (call_.input.dtype == call_.output.dtype) return;
    refuse("the types differ: the input is " + to_string(call_.input) + ", the output " +
           to_string(call_.output));
  }

  // A rank's own share may lie at its place in the whole, as NCCL has it.
  void check_share(const Buffer& whole, const Buffer& share) const {
    check_input_and_output();
    if (whole.count != share.count * ranks()) {
      refuse(to_string(whole) + " is not " + std::to_string(ranks()) + " times " +
             to_string(share));
    }
    const auto rank = static_cast<std::size_t>(caller_.rank);
    if (share.data == whole.slice(rank * share.count, share.count).data) return;
    if (overlap(whole, share)) {
      refuse(
          "input and output overlap; only this rank's own share may lie in the other operand, at "
          "its place");
    }
  }

  void check_shares() const {
    check_input_and_output();
    if (call_.input.count != call_.output.count || call_.input.count % ranks() != 0) {
      refuse(to_string(call_.input) + " and " + to_string(call_.output) +
             " must have equal shares for " + std::to_string(ranks()) + " ranks");
    }
    if (overlap(call_.input, call_.output)) refuse("input and output overlap");
  }

  const Collective& call_;
  const Caller& caller_;
};

}  // namespace

void check_operands(const Collective& call, const Caller& caller) { Check(call, caller).run(); }

}  // namespace ddp
