// SPDX-License-Identifier: MIT
//
// Random collectives of random sizes and dtypes over shared memory. Up to 40 of them are pending at
// a time, and are waited for at once, later, or by the end of the group. 100,000 in all, for 1 to 8
// ranks; under a sanitizer only with the tag [long]. The operands are small integers, so all
// results are exact.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "support/groups.h"
#include "support/sanitizers.h"

using namespace ddp;
using test::expect;

namespace {

constexpr int kOperations = 12500;
constexpr std::size_t kPeriod = 4;  // of element()
constexpr int kFewOperations = test::kIsSanitized ? 250 : kOperations;
constexpr std::size_t kUnderWay = 40;
constexpr std::size_t kOperandBytes = std::size_t{96} << 10;

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kGather,
  kScatter,
  kAllToAll,
  kRing,
  kBarrier
};
constexpr int kKinds = 10;

// A call that all ranks make.
struct Call {
  int number;
  Kind kind;
  DType dtype;
  ReduceOp op;
  int root;
  std::size_t share;  // elements of the smaller operand
};

bool is_exact(ReduceOp op, DType dtype, int world) {
  if (op == ReduceOp::kAverage) return is_floating_point(dtype) && (world & (world - 1)) == 0;
  return op != ReduceOp::kProduct || dtype != DType::kUInt8;
}

// Draws a call, which is the same on all ranks because their random sources are equal.
Call draw_call(std::mt19937& random, int number, int world) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Call call{.number = number,
            .kind = static_cast<Kind>(below(kKinds)),
            .dtype = kAllDTypes[static_cast<std::size_t>(below(std::size(kAllDTypes)))],
            .op = static_cast<ReduceOp>(below(5)),
            .root = below(world),
            .share = 0};
  if (!is_exact(call.op, call.dtype, world)) call.op = ReduceOp::kSum;
  if (call.kind == Kind::kRing && world == 1) call.kind = Kind::kBarrier;
  const bool is_whole = call.kind <= Kind::kBroadcast || call.kind == Kind::kRing;
  const std::size_t most =
      kOperandBytes / size_of(call.dtype) / static_cast<std::size_t>(is_whole ? 1 : world);
  const double size = std::generate_canonical<double, 32>(random);
  call.share = static_cast<std::size_t>(std::pow(static_cast<double>(most), size)) - 1;
  return call;
}

// Element i of a rank's operand.
double element(const Call& call, int rank, std::size_t i) {
  const auto mixed = static_cast<std::size_t>(call.number * 7 + rank * 5) + i * 3;
  return static_cast<double>(1 + mixed % (call.op == ReduceOp::kProduct ? 2 : 4));
}

double reduced(const Call& call, int world, std::size_t i) {
  double result = element(call, 0, i);
  for (int rank = 1; rank < world; ++rank) {
    const double term = element(call, rank, i);
    switch (call.op) {
      case ReduceOp::kProduct:
        result *= term;
        break;
      case ReduceOp::kMin:
        result = std::min(result, term);
        break;
      case ReduceOp::kMax:
        result = std::max(result, term);
        break;
      default:
        result += term;
    }
  }
  return call.op == ReduceOp::kAverage ? result / world : result;
}

// A pending call on one rank.
struct Slot {
  Allocation shared_input;
  Allocation shared_output;
  std::vector<std::byte> own_input = std::vector<std::byte>(kOperandBytes);
  std::vector<std::byte> own_output = std::vector<std::byte>(kOperandBytes);
  std::optional<Call> call = {};
  Buffer result;
  Work work;
};

class Rank {
 public:
  Rank(ProcessGroup& group, unsigned seed)
      : group_(group),
        world_(group.world_size()),
        calls_(seed),
        own_choices_(seed + 1 + static_cast<unsigned>(group.rank())),
        slots_(kUnderWay) {
    for (Slot& slot : slots_) {
      slot.shared_input = group.allocate(kOperandBytes);
      slot.shared_output = group.allocate(kOperandBytes);
    }
  }

  void run(int operations) {
    for (int number = 0; number < operations; ++number) {
      Slot& slot = slots_[static_cast<std::size_t>(number) % slots_.size()];
      finish(slot);
      start(slot, draw_call(calls_, number, world_));
      if (chance(0.3)) slot.work.wait();
      if (chance(0.1)) slot.work.wait_host(std::chrono::seconds(60));
    }
    for (Slot& slot : slots_) finish(slot);
  }

 private:
  bool chance(double p) { return std::generate_canonical<double, 32>(own_choices_) < p; }

  void start(Slot& slot, const Call& call) {
    const bool is_shared = chance(0.6);
    const auto buffer = [&](Allocation& shared, std::vector<std::byte>& own, std::size_t shares) {
      return Buffer{is_shared ? shared.data() : own.data(), call.share * shares, call.dtype,
                    kCpuDevice};
    };
    const auto all = static_cast<std::size_t>(world_);
    const bool has_all = call.kind == Kind::kReduceScatter || call.kind == Kind::kScatter ||
                         call.kind == Kind::kAllToAll;
    const bool gets_all =
        call.kind == Kind::kAllGather || call.kind == Kind::kGather || call.kind == Kind::kAllToAll;
    const Buffer input = buffer(slot.shared_input, slot.own_input, has_all ? all : 1);
    const Buffer output = buffer(slot.shared_output, slot.own_output, gets_all ? all : 1);
    std::vector<double> values(input.count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i < kPeriod ? element(call, group_.rank(), i) : values[i - kPeriod];
    }
    cpu::cast(buffer_of(values), input);
    cpu::fill(output, 99);
    slot.call = call;
    slot.work = submit(call, input, output);
    slot.result = call.kind <= Kind::kBroadcast ? input : output;
  }

  Work submit(const Call& call, const Buffer& input, const Buffer& output) {
    switch (call.kind) {
      case Kind::kAllReduce:
        return group_.all_reduce(input, call.op);
      case Kind::kReduce:
        return group_.reduce(input, call.root, call.op);
      case Kind::kBroadcast:
        return group_.broadcast(input, call.root);
      case Kind::kAllGather:
        return group_.all_gather(input, output);
      case Kind::kReduceScatter:
        return group_.reduce_scatter(input, output, call.op);
      case Kind::kGather:
        return group_.gather(input, output, call.root);
      case Kind::kScatter:
        return group_.scatter(input, output, call.root);
      case Kind::kAllToAll:
        return group_.all_to_all(input, output);
      case Kind::kRing: {
        auto batch = group_.batch();
        static_cast<void>(group_.send(input, (group_.rank() + 1) % world_));
        static_cast<void>(group_.recv(output, (group_.rank() + world_ - 1) % world_));
        return batch.end();
      }
      case Kind::kBarrier:
        break;
    }
    return group_.barrier();
  }

  void finish(Slot& slot) {
    if (!slot.call) return;
    slot.work.wait();
    std::vector<double> values(slot.result.count);
    cpu::cast(slot.result, buffer_of(values));
    std::array<double, kPeriod> period{};  // of the present rank's share
    const std::size_t share = std::max<std::size_t>(slot.call->share, 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t place = i % share;
      if (place < kPeriod) period[place] = expected(*slot.call, i);
      const double wanted = period[place % kPeriod];
      if (values[i] == wanted) continue;
      throw std::runtime_error("call " + std::to_string(slot.call->number) + " of kind " +
                               std::to_string(static_cast<int>(slot.call->kind)) + ", " +
                               to_string(slot.result) + ": [" + std::to_string(i) + "] is " +
                               std::to_string(values[i]) + ", not " + std::to_string(wanted));
    }
    slot.call.reset();
  }

  [[nodiscard]] double expected(const Call& call, std::size_t i) const {
    const int rank = group_.rank();
    const bool is_root = rank == call.root;
    const std::size_t source = call.share == 0 ? 0 : i / call.share;
    const std::size_t place = call.share == 0 ? 0 : i % call.share;
    const std::size_t own_part = static_cast<std::size_t>(rank) * call.share;
    switch (call.kind) {
      case Kind::kAllReduce:
        return reduced(call, world_, i);
      case Kind::kReduce:
        return is_root ? reduced(call, world_, i) : element(call, rank, i);
      case Kind::kBroadcast:
        return element(call, call.root, i);
      case Kind::kAllGather:
        return element(call, static_cast<int>(source), place);
      case Kind::kGather:
        return is_root ? element(call, static_cast<int>(source), place) : 99;
      case Kind::kReduceScatter:
        return reduced(call, world_, own_part + i);
      case Kind::kScatter:
        return element(call, call.root, own_part + i);
      case Kind::kAllToAll:
        return element(call, static_cast<int>(source), own_part + place);
      case Kind::kRing:
        return element(call, (rank + world_ - 1) % world_, i);
      case Kind::kBarrier:
        break;
    }
    return 99;
  }

  ProcessGroup& group_;
  int world_;
  std::mt19937 calls_;
  std::mt19937 own_choices_;
  std::vector<Slot> slots_;
};

void run_random_collectives(int operations) {
  for (int world = 1; world <= 8; ++world) {
    INFO(world << " ranks");
    REQUIRE_NOTHROW(test::run_groups(Backend::kShm, world, [&](ProcessGroup& group) {
      Rank(group, static_cast<unsigned>(1000 * world)).run(operations);
    }));
  }
}

}  // namespace

TEST_CASE("random collectives over shared memory are exact", "[shm][stress]") {
  run_random_collectives(kFewOperations);
}

TEST_CASE("100,000 random collectives are exact", "[.][long]") {
  run_random_collectives(kOperations);
}
