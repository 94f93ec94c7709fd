// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/collectives/failure/break_report.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/queue/operand_memory.h"
#include "ddp/collectives/queue/operation_queue.h"

namespace ddp {

// A CPU backend whose operations run on an OperationQueue that is a part of the group.
class QueuedProcessGroup : public ProcessGroup {
 public:
  // See OperationQueue.
  [[nodiscard]] bool wait_idle(Timeout timeout) { return queue().wait_idle(timeout); }
  [[nodiscard]] virtual bool wait_released(const Buffer& memory, Timeout timeout) {
    return queue().wait_released(memory, timeout);
  }
  [[nodiscard]] bool is_broken() { return queue().is_broken(); }

  // For groups that are parts of another one, as is failed_in(): see HangContact.
  [[nodiscard]] std::vector<int> awaited() const { return recorder().hang().awaited(); }

  // What this rank was doing when an operation failed, and that operation's timeout; of several
  // transfers, the one that timed out or lost its peer, with that peer.
  struct Doing {
    CollectiveSignature call;
    Timeout timeout;
    std::optional<int> peer;
  };
  // Nothing if none has failed, or if it still runs: see OperationQueue::wait.
  [[nodiscard]] std::optional<Doing> failed_in() {
    return queue().has_ended() ? doing() : std::nullopt;
  }

 protected:
  using ProcessGroup::ProcessGroup;

  [[nodiscard]] virtual OperationQueue& queue() = 0;
  // What failed_in() returns, for groups that may be parts. Nothing runs any more when it is
  // called.
  [[nodiscard]] virtual std::optional<Doing> doing() const { return std::nullopt; }

  // What allocate() hands out.
  [[nodiscard]] Allocation guard(Allocation memory) {
    return guard_operand_memory(std::move(memory), weak_from_this());
  }

  // If an operation does not end by itself, the group is broken. While an exception is thrown, that
  // is not recorded as this rank's error: the exception is, which the program will report.
  bool do_release(const Buffer& memory) noexcept override {
    if (wait_released(memory, OperationQueue::kErrorGrace)) return true;
    try {
      break_unfinished();
    } catch (const std::exception&) {  // such as bad_alloc
    }
    return wait_released(memory, OperationQueue::kErrorGrace);
  }

  std::uint64_t submit(std::span<const Collective> operations) override {
    return queue().submit(operations);
  }
  // The wait ends although no timeout is given, since each running operation times out.
  void wait(std::uint64_t sequence, Stream) override { queue().wait(sequence, Timeout::max()); }
  void wait_host(std::uint64_t sequence, Timeout timeout) override {
    queue().wait(sequence, timeout);
  }
  void time_last(std::uint64_t) override {}  // the queue always does
  std::optional<Interval> interval(std::uint64_t sequence) override {
    return queue().interval(sequence);
  }

 private:
  void break_unfinished() {
    const auto pending = recorder().oldest_pending();
    const std::string operation =
        pending ? describe_operation(recorder(), pending->operations.front()) : "an operation";
    if (std::uncaught_exceptions() == 0) {
      abort("it freed memory during " + operation);
    } else {
      const std::string text = "an exception left " + operation + " unfinished";
      shared_report()->tell(recorder(), std::make_exception_ptr(PeerError(text)));
      do_abort(text);
    }
  }
};

}  // namespace ddp
