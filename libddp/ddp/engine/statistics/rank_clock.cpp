// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/rank_clock.h"

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "ddp/collectives/host_collectives.h"
#include "ddp/collectives/peers/rank_identity.h"
#include "ddp/cuda/cuda.h"

namespace ddp {
namespace {

using Rounds = std::array<std::int64_t, kClockRounds>;  // nanoseconds on one rank's clock

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

Clock::time_point time_at(std::int64_t ns) {
  return Clock::time_point(std::chrono::nanoseconds(ns));
}

// Equal for processes that share a steady clock: same boot, same time namespace.
std::int64_t clock_identity() {
  struct stat status {};
  const bool known = ::stat("/proc/self/ns/time", &status) == 0;  // since Linux 5.6
  const std::string clock = known ? std::to_string(status.st_ino) : "";
  const std::string identity = host_facts().boot_id + "/" + clock;
  return static_cast<std::int64_t>(std::hash<std::string>{}(identity));
}

// Exchanges one-byte messages with a peer; only their timing matters.
class Messages {
 public:
  Messages(ProcessGroup& group, int peer)
      : group_(group), peer_(peer), memory_(group.allocate(1)) {}

  void send() { wait(group_.send(buffer(), peer_)); }
  void receive() { wait(group_.recv(buffer(), peer_)); }

 private:
  // wait_host() may ask the store for errors, too, which takes time.
  void wait(const Work& work) const {
    if (!group_.device().is_cuda()) return work.wait_host();
    const cu::DeviceGuard guard(group_.device());
    work.wait({});
    cu::synchronize({});
  }
  [[nodiscard]] Buffer buffer() const {
    return {memory_.data(), 1, DType::kUInt8, group_.device()};
  }

  ProcessGroup& group_;
  int peer_;
  Allocation memory_;
};

struct Exchange {
  Rounds begin{};
  Rounds end{};
};

Exchange ask(ProcessGroup& group, int peer) {
  Messages messages(group, peer);
  Exchange exchange;
  for (std::size_t i = 0; i < exchange.begin.size(); ++i) {
    exchange.begin[i] = nanoseconds(Clock::now());
    messages.send();
    messages.receive();
    exchange.end[i] = nanoseconds(Clock::now());
  }
  return exchange;
}

Rounds answer(ProcessGroup& group) {
  Messages messages(group, 0);
  Rounds answered{};
  for (std::int64_t& time : answered) {
    messages.receive();
    time = nanoseconds(Clock::now());
    messages.send();
  }
  return answered;
}

ClockReading reading_of(const Exchange& asked, const std::int64_t* answered) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < asked.begin.size(); ++i) {
    if (asked.end[i] - asked.begin[i] < asked.end[best] - asked.begin[best]) best = i;
  }
  const std::int64_t half = (asked.end[best] - asked.begin[best] + 1) / 2;
  return {.when = time_at(answered[best]),
          .offset = std::chrono::nanoseconds(asked.begin[best] + half - answered[best]),
          .error = std::chrono::nanoseconds(half)};
}

}  // namespace

std::vector<ClockReading> read_clocks(ProcessGroup& group, SharedClocks shared) {
  const auto identities = all_gather_on_host(group, std::array{clock_identity()});
  const auto is_asked = [&](std::size_t rank) {
    return rank != 0 && (shared == SharedClocks::kMeasure || identities[rank] != identities[0]);
  };
  std::vector<Exchange> asked(identities.size());
  Rounds answered{};
  for (std::size_t rank = 1; rank < identities.size(); ++rank) {
    if (!is_asked(rank)) continue;
    if (group.rank() == 0) asked[rank] = ask(group, static_cast<int>(rank));
    if (group.rank() == static_cast<int>(rank)) answered = answer(group);
  }
  const std::vector<std::int64_t> answers = all_gather_on_host(group, answered);
  std::vector<ClockReading> readings;
  if (group.rank() != 0) return readings;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    readings.push_back(is_asked(rank) ? reading_of(asked[rank], &answers[rank * answered.size()])
                                      : ClockReading{.when = Clock::now()});
  }
  return readings;
}

Clock::time_point on_first_clock(Clock::time_point time, const ClockReading& early,
                                 const ClockReading& late) {
  using Seconds = std::chrono::duration<double>;
  if (late.when <= early.when) return time + early.offset;
  const double part = Seconds(time - early.when) / Seconds(late.when - early.when);
  const Seconds drift = part * Seconds(late.offset - early.offset);
  return time + early.offset + std::chrono::duration_cast<Clock::duration>(drift);
}

}  // namespace ddp
