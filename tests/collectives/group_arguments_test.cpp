// SPDX-License-Identifier: MIT
//
// Which arguments a group refuses before anything starts, and which it takes.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/failure/first_error.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::run_groups;
using test::run_on_all_backends;

TEST_CASE("bad arguments are refused before anything starts", "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    const auto refuses = [](const auto& call) { return !error_of([&] { (void)call(); }).empty(); };
    std::vector<float> four(4);
    std::vector<float> five(5);
    std::vector<std::int32_t> integers(4);
    expect(refuses([&] { return group.all_gather(buffer_of(four), buffer_of(five)); }), "size");
    expect(refuses([&] { return group.broadcast(buffer_of(four), 2); }), "root");
    expect(refuses([&] { return group.send(buffer_of(four), group.rank()); }), "self");
    expect(refuses([&] { return group.all_reduce(buffer_of(integers), ReduceOp::kAverage); }),
           "integer average");
    Buffer no_memory{nullptr, 4, DType::kFloat32, kCpuDevice};
    expect(refuses([&] { return group.all_reduce(no_memory); }), "null");
    Buffer elsewhere{four.data(), 4, DType::kFloat32, cuda_device(0)};
    expect(refuses([&] { return group.all_reduce(elsewhere); }), "device");
    expect(refuses([&] { return group.start_timing(0), 0; }), "no operations to time");
    expect(refuses([&] { return group.start_timing(ProcessGroup::kMaxTimedOperations + 1), 0; }),
           "too many operations to time");
    group.start_timing(ProcessGroup::kMaxTimedOperations);
    group.barrier().wait();
  });
}

TEST_CASE("operands of different types are refused as that, whatever their sizes",
          "[collectives]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    std::vector<std::int32_t> whole(4);
    std::vector<float> share(2);
    std::vector<float> floats(4);
    const auto refuses = [](const auto& call, const std::string& text) {
      const std::string error = error_of([&] { (void)call(); });
      expect(error == text, error);
    };
    refuses([&] { return group.all_gather(buffer_of(share), buffer_of(whole)); },
            "all_gather: the types differ: the input is float32[2] on cpu, the output int32[4] on "
            "cpu");
    refuses([&] { return group.reduce_scatter(buffer_of(whole), buffer_of(share)); },
            "reduce_scatter: the types differ: the input is int32[4] on cpu, the output float32[2] "
            "on cpu");
    refuses([&] { return group.all_to_all(buffer_of(floats), buffer_of(whole)); },
            "all_to_all: the types differ: the input is float32[4] on cpu, the output int32[4] on "
            "cpu");
  });
}

// Ranks 1 and 3 of the job are ranks 0 and 1 of this group.
TEST_CASE("an argument's error names the group whose numbers of ranks it has", "[collectives]") {
  run_groups(Backend::kShm, 4, [](ProcessGroup& job) {
    const auto part = job.split(job.rank() % 2, 0);
    float element = 0;
    const Buffer buffer = buffer_of(std::span(&element, 1));
    const std::string of_part = error_of([&] { (void)part->broadcast(buffer, 3); });
    expect(of_part == "broadcast of group " + part->name() + ": rank 3 is not in a group of 2",
           of_part);
    const std::string of_job = error_of([&] { (void)job.broadcast(buffer, 4); });
    expect(of_job == "broadcast: rank 4 is not in a group of 4", of_job);
  });
}

TEST_CASE("operands may overlap only if a rank's share lies at its place in the whole",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2, 3}) {
      run_groups(backend, world_size, [](ProcessGroup& group) {
        constexpr std::size_t kShare = 5000;
        const auto rank = static_cast<std::size_t>(group.rank());
        const auto ranks = static_cast<std::size_t>(group.world_size());
        std::vector<float> memory(ranks * kShare + 1, static_cast<float>(rank));
        const Buffer all = buffer_of(memory);
        const Buffer whole = all.slice(0, ranks * kShare);
        const Buffer own = whole.slice(rank * kShare, kShare);
        const Buffer beside = all.slice(rank * kShare + 1, kShare);
        const auto refuses = [](const auto& call) {
          const std::string error = error_of([&] { (void)call(); });
          expect(error.find("overlap") != std::string::npos, "overlap, not '" + error + "'");
        };
        refuses([&] { return group.all_gather(beside, whole); });
        refuses([&] { return group.reduce_scatter(whole, beside); });
        refuses([&] { return group.all_to_all(whole, whole); });
        if (rank == 0) refuses([&] { return group.gather(beside, whole, 0); });
        if (rank == 0) refuses([&] { return group.scatter(whole, beside, 0); });
        group.all_gather(own, whole).wait();
        for (std::size_t i = 0; i < ranks * kShare; ++i) {
          expect(memory[i] == static_cast<float>(i / kShare), "the share of each rank");
        }
        group.reduce_scatter(whole, own).wait();
        expect(memory[rank * kShare] == static_cast<float>(rank * ranks), "their sum");
      });
    }
  }
}

TEST_CASE("a timeout must be above 0 and may be the largest number", "[collectives]") {
  for (const Backend backend : test::backends()) {
    for (const int world_size : {1, 2}) {
      const auto add_up = [&](ProcessGroup& group) {
        float sum = 1;
        group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        {
          const ScopedTimeout scoped(group, Timeout::max());
          group.all_reduce(buffer_of(std::span(&sum, 1))).wait();
        }
        expect(sum == static_cast<float>(world_size * world_size), "the sum");
      };
      run_groups(backend, world_size, add_up, Timeout::max());
      if (backend == Backend::kShmTcp && world_size > 1) continue;  // users cannot create it
      for (const Timeout timeout : {0ms, -1ms}) {
        CHECK(error_of([&] { run_groups(backend, world_size, add_up, timeout); }) ==
              "[init] a timeout is " + std::to_string(timeout.count()) +
                  " ms, but it must be above 0");
      }
    }
  }
}

// The library's own keys are "abort" and such.
TEST_CASE("a program's keys in a group's store are its own", "[collectives]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    for (const char* key : {"abort", "call/1", "roll/who/0", "progress/0"}) {
      group.store().set(key, "a note");
    }
    std::this_thread::sleep_for(3 * FirstError::kPeriod);  // the library has read its own "abort"
    group.barrier().wait();
    expect(group.store().get("abort", 1s) == "a note", "the note");
    const std::shared_ptr<ProcessGroup> other = group.duplicate();
    expect(!other->store().has("abort"), "a duplicate has keys of its own");
  });
}

TEST_CASE("no fresh name is given twice", "[collectives]") {
  run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    std::set<std::string> names{group.fresh_name("layer1")};  // not "layer10", which would come
    for (int i = 1; i <= 20; ++i) {
      expect(names.insert(group.fresh_name("layer")).second, "a new name");
    }
  });
}

TEST_CASE("a scoped timeout must be above 0", "[collectives]") {
  run_groups(Backend::kShm, 1, [](ProcessGroup& group) {
    for (const Timeout timeout : {0ms, -1ms}) {
      expect(error_of([&] { const ScopedTimeout scoped(group, timeout); }) ==
                 "a timeout is " + std::to_string(timeout.count()) + " ms, but it must be above 0",
             "the refusal");
    }
    group.barrier().wait();
  });
}

TEST_CASE("an operation has the label of its program in an error", "[collectives]") {
  run_on_all_backends(2, [](ProcessGroup& group) {
    float value = 1;
    const Buffer buffer = buffer_of(std::span(&value, 1));
    if (group.rank() == 1) return group.store().wait(std::vector<std::string>{"has given up"}, 20s);
    std::string error;
    {
      const ScopedLabel label(group, "validation loss");
      const ScopedTimeout timeout(group, 200ms);
      error = error_of([&] { group.all_reduce(buffer).wait(); });
    }
    expect(error.find("all_reduce(float32[1], sum) (validation loss)") != std::string::npos, error);
    group.store().set("has given up", "");
  });
}
