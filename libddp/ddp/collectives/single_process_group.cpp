// SPDX-License-Identifier: MIT
#include "ddp/collectives/single_process_group.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/time.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/collective.h"
#include "ddp/collectives/group_config.h"
#include "ddp/collectives/meeting/group_start.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

constexpr auto kEventPollInterval = std::chrono::microseconds(20);

class SingleProcessGroup final : public ProcessGroup {
 public:
  explicit SingleProcessGroup(GroupConfig group_config) : ProcessGroup(std::move(group_config)) {
    if (device().is_cuda()) done_ = cu::Event(device());
  }

  std::string_view backend() const override { return "self"; }
  void check_on(std::span<const int>, const std::function<bool()>&) override {
    check_not_aborted();
  }

 protected:
  Allocation do_allocate(std::size_t size_bytes) override {
    return device().is_cuda() ? cu::allocate_device(size_bytes, device())
                              : allocate_host(size_bytes);
  }
  void do_abort(std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = "[self] rank 0 aborted: " + std::string(reason);
  }
  std::uint64_t submit(std::span<const Collective> operations) override {
    check_not_aborted();
    for (const Collective& each : operations) run(each);
    return sequence_;
  }

  void wait(std::uint64_t, Stream consumer) override {
    check_not_aborted();
    if (device().is_cuda() && sequence_ > 0) done_.make_wait(consumer);
  }

  void wait_host(std::uint64_t sequence, Timeout timeout) override {
    check_not_aborted();
    if (!device().is_cuda() || sequence_ == 0) return;
    if (timeout >= kLongestTimeout) return done_.synchronize();
    const Deadline deadline = Deadline::after(timeout);
    while (!done_.done()) {
      if (deadline.passed()) {
        throw TimeoutError("[self] wait for operation #" + std::to_string(sequence) +
                           ": not finished after " + std::to_string(timeout.count()) + " ms");
      }
      std::this_thread::sleep_for(kEventPollInterval);
      check_not_aborted();
    }
  }

  // Operations take no time here, so none is recorded.
  void time_last(std::uint64_t) override {}
  std::optional<Interval> interval(std::uint64_t) override { return std::nullopt; }

  std::shared_ptr<ProcessGroup> make_child(GroupConfig child) override {
    return make_single_process_group(std::move(child));
  }

 private:
  void run(const Collective& operation) {
    const bool cuda = device().is_cuda();
    if (cuda && sequence_ > 0) done_.make_wait(operation.producer);  // one at a time
    if (operation.input.data != operation.output.data) {
      copy(operation.input, operation.output, operation.producer);
    }
    if (cuda) done_.record(operation.producer);
    ++sequence_;
  }

  void check_not_aborted() {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_.empty()) throw PeerError(abort_reason_);
  }

  std::atomic<std::uint64_t> sequence_ = 0;  // waits may be on other threads
  cu::Event done_;                           // CUDA only: recorded after each operation
  std::mutex mutex_;
  std::string abort_reason_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_single_process_group(GroupConfig config) {
  return make_group_object<SingleProcessGroup>(std::move(config));
}

}  // namespace ddp
