// SPDX-License-Identifier: MIT
//
// The timeout of one call, and of the operations of a batch.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/gate.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

constexpr std::size_t kMoreThanSocketsHold = std::size_t{16} << 20;  // floats

// Ends the batch, in which an operation may take 300 ms; the others are patient for 15 s. Then lets
// the other ranks go.
void expect_quick_timeout(ProcessGroup::Batch& batch, test::Gate& errors) {
  const Deadline promised = Deadline::after(5s);
  const std::string error = error_of([&] { batch.end().wait(); });
  const bool is_in_time = !promised.passed();
  errors.raise();
  expect(error.find("timed out after 300 ms") != std::string::npos, error);
  expect(is_in_time, "in time");
}

}  // namespace

TEST_CASE("the first deadline of a batch ends it", "[hang]") {
  const bool is_first_quick = GENERATE(false, true);
  const bool sends = GENERATE(false, true);
  for (const Backend backend : {Backend::kShm, Backend::kTcp}) {
    CAPTURE(is_first_quick, sends, to_string(backend));
    test::Gate errors;
    test::run_groups(backend, 3, [&](ProcessGroup& group) {
      if (group.rank() > 0) return expect(errors.wait_for(1), "rank 0's error");
      std::vector<std::vector<float>> operands(2, std::vector<float>(kMoreThanSocketsHold));
      auto batch = group.batch();
      for (const int peer : {1, 2}) {
        const bool is_quick = is_first_quick == (peer == 1);
        const ScopedTimeout limit(group, is_quick ? Timeout(300) : Timeout(15000));
        const Buffer operand = buffer_of(operands[static_cast<std::size_t>(peer - 1)]);
        (void)(sends ? group.send(operand, peer) : group.recv(operand, peer));
      }
      expect_quick_timeout(batch, errors);
    });
  }
}

TEST_CASE("what a batch receives meanwhile puts off no deadline", "[hang]") {
  constexpr int kSends = 100;
  for (const Backend backend : {Backend::kShm, Backend::kTcp}) {
    test::Gate errors;
    test::run_groups(backend, 3, [&](ProcessGroup& group) {
      if (group.rank() == 1) {
        const std::string error = error_of([&] {
          float value = 1;
          for (int i = 0; i < kSends && errors.count() == 0; ++i) {
            group.send(buffer_of(std::span(&value, 1)), 0).wait();
            std::this_thread::sleep_for(100ms);
          }
        });
        return expect(errors.wait_for(1), "rank 0's error: " + error);
      }
      if (group.rank() == 2) return expect(errors.wait_for(1), "rank 0's error");
      std::vector<float> received(kSends + 1);
      const ScopedTimeout quick(group, 300ms);
      auto batch = group.batch();
      (void)group.recv(buffer_of(received).slice(kSends, 1), 2);
      {
        const ScopedTimeout patient(group, 15s);
        for (std::size_t i = 0; i < kSends; ++i) {
          (void)group.recv(buffer_of(received).slice(i, 1), 1);
        }
      }
      expect_quick_timeout(batch, errors);
    });
  }
}

TEST_CASE("one call may have another timeout than the group", "[hang]") {
  const bool is_transfer = GENERATE(false, true);
  for (const Backend backend : {Backend::kShm, Backend::kTcp}) {
    std::atomic<bool> is_over = false;
    test::run_groups(backend, 2, [&](ProcessGroup& group) {
      float value = 1;
      const Buffer buffer{&value, 1, DType::kFloat32, kCpuDevice};
      {
        const ScopedTimeout quick(group, 5s);
        group.all_reduce(buffer).wait();
      }
      if (group.rank() == 1) {
        while (!is_over) std::this_thread::yield();
        return;
      }
      const ScopedTimeout quick(group, 300ms);
      const auto begin = Clock::now();
      const std::string text = error_of(
          [&] { (is_transfer ? group.recv(buffer, 1) : group.all_reduce(buffer)).wait(); });
      is_over = true;
      expect(text.find("timed out after 300 ms") != std::string::npos, text);
      expect(text.find("DDP_TIMEOUT") != std::string::npos, text);
      expect(Clock::now() - begin < 10s, "an error in time");
    });
  }
}
