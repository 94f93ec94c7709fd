// SPDX-License-Identifier: MIT
//
// Details of the shm backend: which rank does which work, what it leaves behind, and whom it takes
// for dead. shm_waits_test.cpp tests how ranks wait.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/system/shared_memory.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/collectives/shm/peer_watch.h"
#include "ddp/collectives/shm/shm_member.h"
#include "support/becomes_true.h"
#include "support/file_size_limit.h"
#include "support/groups.h"
#include "support/sanitizers.h"
#include "support/stderr_capture.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::run_groups;

namespace {

// Sizes in float32 elements: an operand that is posted, one that is copied to shared memory, and
// one that is too large to be copied if it lies in a rank's own memory.
constexpr std::size_t kSmall = 100;
constexpr std::size_t kMedium = 300007;
constexpr std::size_t kLarge = 700001;

// An array of float32 in shared memory or in this rank's own memory.
class Floats {
 public:
  Floats(ProcessGroup& group, std::size_t count, bool is_shared)
      : own_(is_shared ? 0 : count), shared_(is_shared ? group.allocate(4 * count) : Allocation()) {
    buffer_ = {is_shared ? shared_.data() : own_.data(), count, DType::kFloat32, kCpuDevice};
  }

  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  void fill(double value) const { cpu::fill(buffer_, value); }
  [[nodiscard]] bool are_all(float value) const {
    const auto all = buffer_.as<float>();
    return std::all_of(all.begin(), all.end(), [&](float each) { return each == value; });
  }

 private:
  std::vector<float> own_;
  Allocation shared_;
  Buffer buffer_;
};

// The number of descriptors that this process has open.
std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace

TEST_CASE("the others finish even if one rank never waits", "[shm]") {
  for (const std::size_t count : {kSmall, kMedium, kLarge}) {
    for (const int ranks_with_shared : {0, 1, 3}) {
      run_groups(Backend::kShm, 3, [&](ProcessGroup& group) {
        const Floats floats(group, count, group.rank() < ranks_with_shared);
        // After this, a rank that the others do not need wakes no thread.
        for (int i = 0; i < (test::kIsSanitized ? 20 : 100); ++i) {
          group.all_reduce(floats.buffer()).wait();
        }
        floats.fill(group.rank() + 1);
        const Work work = group.all_reduce(floats.buffer());
        const std::string key = "finished/" + std::to_string(group.rank());
        if (group.rank() == 0) {
          const std::vector<std::string> keys = {"finished/1", "finished/2"};
          group.store().wait(keys, 30s);  // waits for the store, not for the work
        } else {
          work.wait();
          expect(floats.are_all(6), "the sum");
          group.store().set(key, "");
        }
        work.wait();
        expect(floats.are_all(6), "the sum on the rank that waits last");
      });
    }
  }
}

TEST_CASE("64 ranks of one host get the sum", "[shm]") {
  run_groups(Backend::kShm, 64, [&](ProcessGroup& group) {
    for (const std::size_t count : {kSmall, kMedium, kLarge}) {
      if (count == kLarge && test::kIsSanitized) continue;  // half a minute
      for (const bool is_shared : {false, true}) {
        const Floats floats(group, count, is_shared);
        floats.fill(group.rank() + 1);
        group.all_reduce(floats.buffer()).wait();
        expect(floats.are_all(64 * 65 / 2), "the sum");
      }
    }
  });
}

TEST_CASE("some ranks may have their operands in memory of their own", "[shm]") {
  for (int i = 0; i < 16; ++i) {
    const std::size_t count = i < 8 ? kMedium : kLarge;
    run_groups(Backend::kShm, 3, [&](ProcessGroup& group) {
      const Floats floats(group, count, (i >> group.rank() & 1) != 0);
      floats.fill(group.rank() + 1);
      group.all_reduce(floats.buffer()).wait();
      expect(floats.are_all(6), "all_reduce");
      floats.fill(group.rank() + 1);
      group.reduce(floats.buffer(), 1, ReduceOp::kMax).wait();
      expect(floats.are_all(group.rank() == 1 ? 3.0F : static_cast<float>(group.rank() + 1)),
             "reduce");
      floats.fill(group.rank() + 1);
      group.broadcast(floats.buffer(), 2).wait();
      expect(floats.are_all(3), "broadcast");
    });
  }
}

TEST_CASE("operations on the same operand run in order, even without waits", "[shm]") {
  for (const std::size_t count : {kSmall, kMedium, kLarge}) {
    for (const bool is_shared : {false, true}) {
      run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
        const Floats floats(group, count, is_shared);
        floats.fill(1);
        Work last;
        for (int i = 0; i < 10; ++i) last = group.all_reduce(floats.buffer());
        last.wait();
        expect(floats.are_all(1024), "doubled ten times");
      });
    }
  }
}

TEST_CASE("an operation waits for the one that writes its operand", "[shm]") {
  for (const std::size_t count : {kSmall, kMedium}) {
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      std::vector<float> own(count), all(2 * count);
      for (int round = 0; round < 10; ++round) {
        std::ranges::fill(own, static_cast<float>(10 * round + group.rank()));
        (void)group.all_gather(buffer_of(own), buffer_of(all));
        group.all_reduce(buffer_of(all)).wait();
        std::vector<float> expected(2 * count, static_cast<float>(20 * round));
        std::fill_n(expected.rbegin(), count, static_cast<float>(20 * round + 2));
        expect(all == expected, "both ranks' sums of what was gathered");
      }
    });
  }
}

TEST_CASE("more operations may be under way than can be posted", "[shm]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    std::vector<double> values(500);
    Work last;
    for (double& value : values) {
      value = group.rank() + 1;
      last = group.all_reduce(buffer_of(std::span(&value, 1)));
    }
    last.wait();
    for (const double value : values) expect(value == 3, "each sum");
  });
}

// 40 operands of all sizes that are copied.
TEST_CASE("more operands may be under way than there is room for copies", "[shm]") {
  run_groups(Backend::kShm, 3, [](ProcessGroup& group) {
    std::vector<std::vector<float>> all;
    for (std::size_t i = 0; i < 40; ++i) all.emplace_back(5000 + i * 7919 % kMedium);
    for (int round = 0; round < 3; ++round) {
      Work last;
      for (std::vector<float>& values : all) {
        std::iota(values.begin(), values.end(), static_cast<float>(group.rank() - 1));
        last = group.all_reduce(buffer_of(values));
      }
      last.wait();
      for (const std::vector<float>& values : all) {
        const auto expected = static_cast<float>(3 * (values.size() - 1));
        expect(values.front() == 0 && values.back() == expected, "a sum");
      }
    }
  });
}

TEST_CASE("if a rank leaves without waiting, the others get the sum or an error", "[shm]") {
  for (int i = 0; i < 20; ++i) {
    std::vector<std::vector<float>> operands = {std::vector<float>(kMedium, 1),
                                                std::vector<float>(kMedium, 2)};
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      std::vector<float>& own = operands[static_cast<std::size_t>(group.rank())];
      const Work work = group.all_reduce(buffer_of(own));
      if (group.rank() == 0) return;  // the operand outlives the group, as it must
      const std::string error = error_of([&] { work.wait(); });
      const bool is_summed = own == std::vector<float>(kMedium, 3);
      expect(error.empty() ? is_summed : error.find("left") != std::string::npos, error);
    });
  }
}

TEST_CASE("a rank that fails while another writes its error throws that error", "[shm]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    shm::Member member({.store = store, .rank = rank, .world_size = 2},
                       std::make_shared<FlightRecorder>());
    if (rank == 1) return;
    shm::Header& header = member.segment().header();
    header.cause_state = shm::CauseState::kBeingWritten;
    std::future<std::string> other = std::async(std::launch::async, [&] {
      return error_of([&] { std::rethrow_exception(member.fail({shm::Cause::kPeer, "second"})); });
    });
    expect(other.wait_for(20ms) == std::future_status::timeout, "a wait for the first cause");
    std::strcpy(header.note, GroupFailure{shm::Cause::kTimeout, "first"}.note().c_str());
    header.cause_state = shm::CauseState::kComplete;
    expect(other.get() == "first", "the first cause");
  });
}

TEST_CASE("a rank that is killed while it writes its error delays the others only briefly",
          "[shm]") {
  const auto store = std::make_shared<HashStore>();
  const Deadline promised = Deadline::after(5 * 1s);
  test::run_ranks(2, [&](int rank) {
    shm::Member member({.store = store, .rank = rank, .world_size = 2},
                       std::make_shared<FlightRecorder>());
    if (rank == 1) return;
    member.segment().header().cause_state = shm::CauseState::kBeingWritten;
    const std::string error = error_of([&] {
      std::rethrow_exception(member.fail({shm::Cause::kPeer, "second"}));
    });
    expect(error == "second", error);
  });
  CHECK_FALSE(promised.passed());
}

TEST_CASE("operand memory can be allocated and freed while the group exists", "[shm]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    for (int i = 1; i <= 50; ++i) {
      const Floats floats(group, kLarge / static_cast<std::size_t>(i), true);
      expect(floats.are_all(0), "zeros");
      floats.fill(i + group.rank());
      group.all_reduce(floats.buffer()).wait();
      expect(floats.are_all(static_cast<float>(2 * i + 1)), "the sum");
    }
  });
}

// Its rank is not in the library, and does not keep others waiting.
TEST_CASE("an operation that nobody waits for is not reported as a hang", "[shm]") {
  const test::StderrCapture captured;
  test::run_groups(Backend::kShm, 2,
                   [](ProcessGroup& group) {
                     std::vector<float> value(1);
                     const Work work = group.all_reduce(buffer_of(value));
                     expect(
                         test::becomes_true([&] { return group.recorder().position().done == 1; }),
                         "done without a wait");
                     std::this_thread::sleep_for(600ms);  // three times the patience
                     work.wait();
                   },
                   60s, {.period = 20ms, .patience = 200ms});
  CHECK_THAT(captured.text(), !Catch::Contains("has not joined"));
}

TEST_CASE("shared memory is found by its name as long as its owner has it", "[shm]") {
  SharedMemory::Name name;
  {
    const auto owner = SharedMemory::create(5000);
    name = owner->name();
    owner->data()[4999] = std::byte{7};
    CHECK(SharedMemory::open(name)->data() == owner->data());  // one mapping per process
    CHECK_THROWS_AS(SharedMemory::open({name.pid + 1000000, name.fd, name.inode, 5000}),
                    SystemError);
    owner->discard();
    CHECK(owner->data()[4999] == std::byte{0});
  }
  CHECK(error_of([&] { (void)SharedMemory::open(name); }).find("cannot open the shared memory") !=
        std::string::npos);
}

TEST_CASE("shared memory beyond the limit on file sizes is an error that names the limit",
          "[shm]") {
  const test::FileSizeLimit limit(4096);
  CHECK(error_of([] { (void)SharedMemory::create(5000); }) ==
        "cannot size shared memory to 5000 bytes, since ulimit -f allows files of 4096 bytes: "
        "File too large");
}

TEST_CASE("freed blocks leave no descriptors behind", "[shm]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto exchange = [&] {
      const Floats floats(group, kLarge, group.rank() == 0);  // rank 1's operand is copied
      floats.fill(1);
      group.all_reduce(floats.buffer()).wait();
      group.barrier().wait();
    };
    exchange();
    group.barrier().wait();
    const std::ptrdiff_t before = descriptors();
    group.barrier().wait();
    for (int i = 0; i < 20; ++i) exchange();
    group.barrier().wait();
    const std::ptrdiff_t after = descriptors();
    group.barrier().wait();
    expect(after <= before + 4, std::to_string(after - before) + " more descriptors");
  });
}

// As a homemade daemonize does.
TEST_CASE("a process whose descriptor the program has closed is not taken for dead", "[shm]") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const int next = ::dup(STDERR_FILENO);  // the lowest free number, which the watch will get
  ::close(next);
  const PeerWatch watch({child});
  REQUIRE(::close(next) == 0);
  const bool is_dead = watch.is_dead(0);
  ::kill(child, SIGKILL);
  (void)::waitpid(child, nullptr, 0);
  CHECK_FALSE(is_dead);
  CHECK(watch.is_dead(0));
  ::dup2(STDERR_FILENO, next);  // for the watch to close
}
