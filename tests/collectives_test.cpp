// SPDX-License-Identifier: MIT
//
// Every collective, on every backend that runs without a GPU, for world sizes 1 to 4, sizes 0, 1, a
// prime and large, in every dtype. Small integers make every sum exact.
#include <catch2/catch.hpp>

#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::run_groups;

namespace {

// A vector in any dtype, read and written as double.
class Values {
 public:
  Values(DType dtype, std::size_t count)
      : dtype_(dtype), count_(count), bytes_(count * size_of(dtype) + 1) {}

  [[nodiscard]] Buffer buffer() { return {bytes_.data(), count_, dtype_, kCpuDevice}; }

  template <class ValueAt>
  void fill(const ValueAt& value_at) {
    dispatch(dtype_, [&](auto zero) {
      using T = decltype(zero);
      T* elements = buffer().as<T>().data();
      for (std::size_t i = 0; i < count_; ++i) {
        elements[i] = static_cast<T>(static_cast<float>(value_at(i)));
      }
    });
  }

  [[nodiscard]] std::vector<double> read() {
    std::vector<double> values(count_);
    cpu::cast(buffer(), buffer_of(values));
    return values;
  }

 private:
  DType dtype_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

// What rank r holds at place i: 1, 2 or 3.
double element(int rank, std::size_t i) {
  return static_cast<double>(1 + (static_cast<std::size_t>(rank) * 5 + i) % 3);
}

Values filled(DType dtype, std::size_t count, int rank, std::size_t offset = 0) {
  Values values(dtype, count);
  values.fill([&](std::size_t i) { return element(rank, offset + i); });
  return values;
}

double reduced(ReduceOp op, int world_size, std::size_t i) {
  double result = element(0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    const double term = element(rank, i);
    if (op == ReduceOp::kProduct) {
      result *= term;
    } else if (op == ReduceOp::kMin) {
      result = std::min(result, term);
    } else if (op == ReduceOp::kMax) {
      result = std::max(result, term);
    } else {
      result += term;
    }
  }
  return op == ReduceOp::kAverage ? result / world_size : result;
}

// The average of a 16-bit type is rounded; sums of small integers are not.
double rounded(DType dtype, double value) {
  Values one(dtype, 1);
  one.fill([&](std::size_t) { return value; });
  return one.read()[0];
}

// values[i] == wanted(i) for all i.
template <class Wanted>
void expect_all(Values& values, const char* what, const Wanted& wanted) {
  const std::vector<double> all = values.read();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == wanted(i)) continue;
    throw std::runtime_error(std::string(what) + "[" + std::to_string(i) + "] is " +
                             std::to_string(all[i]) + ", not " + std::to_string(wanted(i)));
  }
}

bool applies(ReduceOp op, DType dtype) {
  return op != ReduceOp::kAverage || is_floating_point(dtype);
}

void check_reductions(ProcessGroup& group, DType dtype, std::size_t count, ReduceOp op) {
  const int world = group.world_size();
  const auto ranks = static_cast<std::size_t>(world);
  Values all = filled(dtype, count, group.rank());
  group.all_reduce(all.buffer(), op).wait();
  Values rooted = filled(dtype, count, group.rank());
  group.reduce(rooted.buffer(), op, world - 1).wait();
  Values input = filled(dtype, count * ranks, group.rank());
  Values share(dtype, count);
  group.reduce_scatter(input.buffer(), share.buffer(), op).wait();
  const bool is_exact = op != ReduceOp::kAverage;
  const auto result = [&](std::size_t i) {
    const double value = reduced(op, world, i);
    return is_exact ? value : rounded(dtype, value);
  };
  const bool is_root = group.rank() == world - 1;
  expect_all(all, "all_reduce", result);
  expect_all(rooted, "reduce",
             [&](std::size_t i) { return is_root ? result(i) : element(group.rank(), i); });
  const std::size_t offset = static_cast<std::size_t>(group.rank()) * count;
  expect_all(share, "reduce_scatter", [&](std::size_t i) { return result(offset + i); });
}

void check_exchanges(ProcessGroup& group, DType dtype, std::size_t count) {
  const int world = group.world_size();
  const auto ranks = static_cast<std::size_t>(world);
  const int root = world / 2;
  const auto rank = static_cast<std::size_t>(group.rank());
  Values sent = filled(dtype, count, group.rank());
  group.broadcast(sent.buffer(), root).wait();
  Values own = filled(dtype, count, group.rank());
  Values gathered(dtype, count * ranks);
  group.all_gather(own.buffer(), gathered.buffer()).wait();
  Values at_root(dtype, count * ranks);
  group.gather(own.buffer(), at_root.buffer(), root).wait();
  Values whole = filled(dtype, count * ranks, group.rank());
  Values scattered(dtype, count);
  group.scatter(whole.buffer(), scattered.buffer(), root).wait();
  Values exchanged(dtype, count * ranks);
  group.all_to_all(whole.buffer(), exchanged.buffer()).wait();
  const auto source = [&](std::size_t i) { return static_cast<int>(i / count); };
  expect_all(sent, "broadcast", [&](std::size_t i) { return element(root, i); });
  expect_all(scattered, "scatter", [&](std::size_t i) { return element(root, rank * count + i); });
  expect_all(gathered, "all_gather", [&](std::size_t i) { return element(source(i), i % count); });
  expect_all(at_root, "gather", [&](std::size_t i) {
    return group.rank() == root ? element(source(i), i % count) : 0;
  });
  expect_all(exchanged, "all_to_all",
             [&](std::size_t i) { return element(source(i), rank * count + i % count); });
}

// Everybody sends to the next rank and receives from the one before, all at once.
void check_ring(ProcessGroup& group, DType dtype, std::size_t count) {
  const int world = group.world_size();
  if (world == 1) return;
  const int before = (group.rank() + world - 1) % world;
  Values outgoing = filled(dtype, count, group.rank());
  Values incoming(dtype, count);
  group.group_begin();
  group.send(outgoing.buffer(), (group.rank() + 1) % world);
  group.recv(incoming.buffer(), before);
  group.group_end().wait();
  expect_all(incoming, "recv", [&](std::size_t i) { return element(before, i); });
}

constexpr std::size_t kPrime = 10007;
constexpr std::size_t kLarge = 200003;  // several chunks of the shm backend

}  // namespace

TEST_CASE("every collective is exact in every dtype", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3, 4}) {
      INFO(to_string(backend) << ", " << world_size << " ranks");
      run_groups(backend, world_size, [](ProcessGroup& group) {
        for (const DType dtype : kAllDTypes) {
          for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{97}}) {
            for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin,
                                      ReduceOp::kMax, ReduceOp::kAverage}) {
              if (applies(op, dtype)) check_reductions(group, dtype, count, op);
            }
            check_exchanges(group, dtype, count);
            check_ring(group, dtype, count);
          }
        }
        group.barrier().wait();
      });
    }
  }
}

TEST_CASE("large operands are exact", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3, 4}) {
      INFO(to_string(backend) << ", " << world_size << " ranks");
      run_groups(backend, world_size, [](ProcessGroup& group) {
        for (const DType dtype : kAllDTypes) {
          for (const std::size_t count : {kPrime, kLarge}) {
            check_reductions(group, dtype, count, ReduceOp::kSum);
            check_exchanges(group, dtype, count);
            check_ring(group, dtype, count);
          }
        }
      });
    }
  }
}

TEST_CASE("operations run in order without being waited for", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      std::vector<double> values(1000, 1.0);
      Work last;
      for (int i = 0; i < 5; ++i) last = group.all_reduce(buffer_of(values));
      last.wait();
      for (const double value : values) expect(value == 243, "3^5 everywhere");
    });
  }
}

TEST_CASE("more operations than the queue holds only make the caller wait", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    float value = 0;
    Work last;
    for (int i = 0; i < 5000; ++i) last = group.all_reduce(buffer_of(std::span(&value, 1)));
    last.wait();
  });
}

TEST_CASE("a duplicate does not queue behind its original", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      const auto other = group.duplicate();
      std::vector<float> a(100, 1.0F);
      std::vector<float> b(100, 2.0F);
      // Opposite orders would deadlock on one group.
      const bool first = group.rank() == 0;
      const Work one = first ? group.all_reduce(buffer_of(a)) : other->all_reduce(buffer_of(b));
      const Work two = first ? other->all_reduce(buffer_of(b)) : group.all_reduce(buffer_of(a));
      one.wait();
      two.wait();
      expect(a[0] == 2.0F && b[0] == 4.0F, "both sums");
    });
  }
}

TEST_CASE("split makes one group a color, ranked by key", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 4, [](ProcessGroup& group) {
      const int color = group.rank() == 3 ? -1 : group.rank() % 2;
      const auto part = group.split(color, -group.rank());
      if (group.rank() == 3) {
        expect(part == nullptr, "no group for a negative color");
        return;
      }
      expect(part->world_size() == (color == 0 ? 2 : 1), "two even ranks, one odd");
      expect(part->rank() == (group.rank() == 0 ? 1 : 0), "the larger rank has the smaller key");
      std::int64_t sum = group.rank();
      part->all_reduce(buffer_of(std::span(&sum, 1))).wait();
      expect(sum == (color == 0 ? 2 : 1), "the sum over the part");
    });
  }
}

TEST_CASE("different collectives are an error on every rank that quotes both", "[collectives]") {
  for (const Backend backend : test::backends()) {
    const std::string errors[] = {
        error_of([&] {
          run_groups(backend, 2, [](ProcessGroup& group) {
            std::vector<float> values(group.rank() == 0 ? 8 : 9);
            const std::string error = error_of([&] { group.all_reduce(buffer_of(values)).wait(); });
            throw std::runtime_error("rank 0: " + error);
          });
        }),
        error_of([&] {
          run_groups(backend, 2, [](ProcessGroup& group) {
            std::vector<float> values(8);
            const std::string error = error_of([&] {
              if (group.rank() == 0) group.all_reduce(buffer_of(values)).wait();
              if (group.rank() == 1) group.broadcast(buffer_of(values), 0).wait();
            });
            if (group.rank() == 1) throw std::runtime_error("rank 1: " + error);
          });
        })};
    CHECK(errors[0].find("rank 0 called #1 all_reduce(float32[8], sum), rank 1 called #1 "
                         "all_reduce(float32[9], sum)") != std::string::npos);
    CHECK(errors[1].find("rank 0 called #1 all_reduce(float32[8], sum), rank 1 called #1 "
                         "broadcast(float32[8], root 0)") != std::string::npos);
  }
}

TEST_CASE("a collective against a send or recv is an error that quotes both", "[collectives]") {
  for (const bool receives : {false, true}) {
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      std::vector<float> values(1 << 20);
      const Buffer buffer = buffer_of(values);
      group.all_reduce(buffer).wait();
      const std::string error = error_of([&] {
        if (group.rank() == 0) group.all_reduce(buffer).wait();
        if (group.rank() == 1) (receives ? group.recv(buffer, 0) : group.send(buffer, 0)).wait();
      });
      expect(error.find("rank 0 called #2 all_reduce(float32[1048576], sum), rank 1 called #1 ") !=
                 std::string::npos,
             error);
      expect(error.find(receives ? "recv" : "send") != std::string::npos, error);
    });
  }
}

TEST_CASE("abort wakes every rank with the reason", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      std::vector<float> values(8);
      if (group.rank() == 2) {
        group.abort("the disk is full");
        return;
      }
      const std::string error = error_of([&] { group.all_reduce(buffer_of(values)).wait(); });
      expect(error.find("rank 2 aborted: the disk is full") != std::string::npos, error);
      const std::string again = error_of([&] { group.barrier().wait(); });
      expect(again == error, "the first error again, not: " + again);
    });
  }
}

TEST_CASE("a rank that leaves early is named by those who wait for it", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    if (group.rank() == 1) return;
    float value = 1;
    const std::string error =
        error_of([&] { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); });
    expect(error.find("rank 1 (pid ") != std::string::npos, error);
    expect(error.find("left the group") != std::string::npos, error);
    expect(error.find("#1 all_reduce(float32[1], sum)") != std::string::npos, error);
  });
}

TEST_CASE("a group with unfinished work can be destroyed at once", "[collectives]") {
  std::vector<float> values(100);
  CHECK(error_of([&] {
          run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
            if (group.rank() == 0) group.all_reduce(buffer_of(values));
          });
        }).empty());
}

TEST_CASE("after an error operands may be freed at once", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    auto values = std::make_unique<std::vector<float>>(4 << 20);
    const Work work = group.all_reduce(buffer_of(*values));
    if (group.rank() == 0) group.abort("on purpose");
    const std::string error = error_of([&] { work.wait(); });
    values.reset();
    expect(error.empty() || error.find("on purpose") != std::string::npos, error);
  });
}

TEST_CASE("waiting inside a group is an error, not a hang", "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      std::vector<float> values(8);
      group.group_begin();
      const Work work = group.all_reduce(buffer_of(values));
      expect(error_of([&] { work.wait(); }).find("group_end") != std::string::npos, "logic_error");
      group.group_end().wait();
    });
  }
  CHECK_FALSE(error_of([] { Work().wait(); }).empty());
}

TEST_CASE("a timeout names who has not joined", "[collectives]") {
  run_groups(
      Backend::kShm, 2,
      [](ProcessGroup& group) {
        if (group.rank() == 1) {
          // Stays until rank 0 gave up, without joining.
          (void)group.store().get("done");
          return;
        }
        float value = 1;
        const std::string error =
            error_of([&] { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); });
        group.store().set("done", "");
        expect(error.find("timed out after 200 ms in #1 all_reduce") != std::string::npos, error);
        expect(error.find("not joined by rank 1") != std::string::npos, error);
      },
      200ms);
}

TEST_CASE("a Gloo group whose peers do not come gives up in time and says so", "[collectives]") {
  if (!gloo_is_compiled_in()) return;
  const Deadline promised = Deadline::after(5 * 1s);
  const std::string error = error_of([] {
    (void)make_gloo_process_group({.store = std::make_shared<HashStore>(),
                                   .rank = 0,
                                   .world_size = 2,
                                   .start_timeout = 200ms},
                                  "127.0.0.1");
  });
  CHECK_THAT(error, Catch::StartsWith("[gloo] rank 0 (127.0.0.1) cannot connect to its peers"));
  CHECK_FALSE(promised.passed());
}

TEST_CASE("bad arguments are refused before anything starts", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    std::vector<float> four(4);
    std::vector<float> five(5);
    std::vector<std::int32_t> integers(4);
    expect(!error_of([&] { group.all_gather(buffer_of(four), buffer_of(five)); }).empty(), "size");
    expect(!error_of([&] { group.broadcast(buffer_of(four), 2); }).empty(), "root");
    expect(!error_of([&] { group.send(buffer_of(four), group.rank()); }).empty(), "self");
    expect(!error_of([&] { group.all_reduce(buffer_of(integers), ReduceOp::kAverage); }).empty(),
           "integer average");
    Buffer no_memory{nullptr, 4, DType::kFloat32, kCpuDevice};
    expect(!error_of([&] { group.all_reduce(no_memory); }).empty(), "null");
    Buffer elsewhere{four.data(), 4, DType::kFloat32, cuda_device(0)};
    expect(!error_of([&] { group.all_reduce(elsewhere); }).empty(), "device");
    group.barrier().wait();
  });
}

TEST_CASE("host memory is broadcast in place", "[broadcast]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 3, [](ProcessGroup& group) {
      std::vector<std::uint8_t> bytes(57, static_cast<std::uint8_t>(group.rank()));
      broadcast_on_host(group, buffer_of(bytes), 1);
      expect(bytes == std::vector<std::uint8_t>(57, 1), "the root's bytes everywhere");
    });
  }
}
