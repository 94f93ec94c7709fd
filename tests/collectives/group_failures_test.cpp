// SPDX-License-Identifier: MIT
//
// What breaks a group, and what each rank is told: ranks that call different collectives, leave,
// abort, or come too late.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::run_groups;

namespace {

// "TimeoutError: <its text>".
std::string caught(const std::function<void()>& call) {
  try {
    call();
  } catch (const TimeoutError& error) {
    return std::string("TimeoutError: ") + error.what();
  } catch (const MismatchError& error) {
    return std::string("MismatchError: ") + error.what();
  } catch (const PeerError& error) {
    return std::string("PeerError: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "nothing";
}

// The errors of three ranks that call fn(group); no rank leaves before all have called it.
std::vector<std::string> caught_by_ranks(Backend backend,
                                         const std::function<void(ProcessGroup&)>& fn) {
  std::vector<std::string> all(3);
  run_groups(backend, 3, [&](ProcessGroup& group) {
    all[static_cast<std::size_t>(group.rank())] = caught([&] { fn(group); });
    group.store().set("done/" + std::to_string(group.rank()), "");
    group.store().wait(std::vector<std::string>{"done/0", "done/1", "done/2"}, 20s);
  });
  return all;
}

}  // namespace

TEST_CASE("a rank that calls another collective while others split is an error on all of them",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    const Deadline promised = Deadline::after(5s);
    const auto call = [](ProcessGroup& group) {
      const std::string error = error_of([&] {
        if (group.rank() < 2) (void)group.split(0, 0);
        if (group.rank() == 2) group.barrier().wait();
      });
      expect(error.find("ranks called different collectives: ") != std::string::npos, error);
    };
    run_groups(backend, 3, call, 10s);
    CHECK_FALSE(promised.passed());
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

TEST_CASE("an error of different collectives says what each was for, as far as both ranks know it",
          "[collectives]") {
  for (const bool know_both : {false, true}) {
    test::run_on_all_backends(2, [&](ProcessGroup& group) {
      const auto label = [&](const std::string& text) { const ScopedLabel known(group, text); };
      label("rank " + std::to_string(group.rank()));  // ranks number their texts differently
      if (know_both || group.rank() == 0) label("validation");
      label("the mean loss");
      std::vector<float> values(8);
      const std::string error = error_of([&] {
        const ScopedLabel purpose(group, group.rank() == 0 ? "validation" : "the mean loss");
        if (group.rank() == 0) group.all_reduce(buffer_of(values)).wait();
        if (group.rank() == 1) group.broadcast(buffer_of(values), 0).wait();
      });
      expect(error.find("broadcast(float32[8], root 0) (the mean loss)") != error.npos, error);
      if (!know_both) return;
      expect(error.find("all_reduce(float32[8], sum) (validation), rank 1") != error.npos, error);
    });
  }
}

TEST_CASE("operations with different labels are the same operation", "[collectives]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    const ScopedLabel purpose(group, "rank " + std::to_string(group.rank()));
    std::vector<float> values(300000, 1);
    group.all_reduce(buffer_of(values)).wait();
    expect(values.back() == 2, "the sum");
  });
}

TEST_CASE("a collective against a send or recv is an error that quotes both", "[collectives]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  CAPTURE(to_string(backend));
  for (const bool receives : {false, true}) {
    run_groups(backend, 2, [&](ProcessGroup& group) {
      std::vector<float> values(1 << 23);  // more than a connection holds: a send has to wait
      const Buffer buffer = buffer_of(values);
      group.all_reduce(buffer).wait();
      const std::string error = error_of([&] {
        if (group.rank() == 0) group.all_reduce(buffer).wait();
        if (group.rank() == 1) (receives ? group.recv(buffer, 0) : group.send(buffer, 0)).wait();
      });
      expect(error.find("rank 0 called #2 all_reduce(float32[8388608], sum), rank 1 called #1 ") !=
                 std::string::npos,
             error);
      expect(error.find(receives ? "recv" : "send") != std::string::npos, error);
    });
  }
}

TEST_CASE("a recv of nothing against a send of something is an error that quotes both",
          "[collectives]") {
  test::run_on_all_backends(2, [](ProcessGroup& group) {
    std::vector<float> values(4);
    const std::string error = caught([&] {
      if (group.rank() == 0) group.send(buffer_of(values), 1).wait();
      if (group.rank() == 1) group.recv(buffer_of(values).slice(0, 0), 0).wait();
      group.barrier().wait();
    });
    if (group.rank() == 0) return;
    expect(error.starts_with("MismatchError: "), error);
    for (const char* part : {"send and recv differ: rank 0 called", "float32[4]", "float32[0]"}) {
      expect(error.find(part) != std::string::npos, error);
    }
  });
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

TEST_CASE("all ranks throw one error, of the same class on every backend", "[collectives]") {
  for (const Backend backend : test::backends()) {
    CAPTURE(to_string(backend));
    const auto late = caught_by_ranks(backend, [](ProcessGroup& group) {
      if (group.rank() == 2) group.store().wait(std::vector<std::string>{"done/0", "done/1"}, 20s);
      const ScopedTimeout timeout(group, 300ms);
      group.barrier().wait();
    });
    const auto different = caught_by_ranks(backend, [](ProcessGroup& group) {
      std::vector<float> values(8);
      group.broadcast(buffer_of(values), group.rank() == 1 ? 1 : 0).wait();
    });
    const auto aborted = caught_by_ranks(backend, [](ProcessGroup& group) {
      if (group.rank() == 1) group.abort("on purpose");
      group.barrier().wait();
    });
    CHECK(late == std::vector(3, late[0]));
    CHECK_THAT(late[0], Catch::StartsWith("TimeoutError: ["));
    CHECK(different == std::vector(3, different[0]));
    CHECK_THAT(different[0], Catch::StartsWith("MismatchError: ["));
    CHECK(aborted == std::vector(3, aborted[0]));
    CHECK_THAT(aborted[0], Catch::StartsWith("PeerError: ["));
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

TEST_CASE("a rank that left is named by those who split or duplicate the group", "[collectives]") {
  const std::function<void(ProcessGroup&)> calls[] = {
      [](ProcessGroup& group) { (void)group.split(0, 0); },
      [](ProcessGroup& group) { (void)group.duplicate(); }};
  for (const Backend backend : test::backends()) {
    for (const auto& call : calls) {
      run_groups(backend, 2, [&](ProcessGroup& group) {
        if (group.rank() == 1) return;
        const std::string error = error_of([&] { call(group); });
        expect(error.find("rank 1 (") != std::string::npos, error);
        expect(error.find("left the group") != std::string::npos, error);
      });
    }
  }
}

// The ranks have met in an operation, and wait for each other in the store.
TEST_CASE("ranks that split or duplicate a group notice that another rank breaks it",
          "[collectives]") {
  const auto split_half = [](ProcessGroup& group) {
    std::vector<std::int32_t> color_and_key(2);
    std::vector<std::int32_t> all(2 * static_cast<std::size_t>(group.world_size()));
    group.all_gather(buffer_of(color_and_key), buffer_of(all)).wait();
  };
  struct Call {
    std::function<void(ProcessGroup&)> whole;
    std::function<void(ProcessGroup&)> half;
  };
  const Call calls[] = {{[](ProcessGroup& group) { (void)group.split(0, 0); }, split_half},
                        {[](ProcessGroup& group) { (void)group.duplicate(); },
                         [](ProcessGroup& group) { group.barrier().wait(); }}};
  for (const Backend backend : test::backends()) {
    for (const Call& call : calls) {
      run_groups(backend, 3, [&](ProcessGroup& group) {
        const auto begin = Clock::now();
        const std::string error = error_of([&] {
          if (group.rank() != 1) return call.whole(group);
          call.half(group);
          group.abort("on purpose");
        });
        if (group.rank() == 1) return;
        expect(error.find("rank 1 aborted: on purpose") != std::string::npos, error);
        expect(Clock::now() - begin < 10s, "the error to come soon");
      });
    }
  }
}

TEST_CASE("a rank that has left breaks only waits that have not got what they wait for",
          "[collectives]") {
  for (const Backend backend : test::backends()) {
    run_groups(backend, 2, [](ProcessGroup& group) {
      if (group.rank() == 0) return;
      const int leader[] = {0};
      bool has_left = false;
      const auto has_come = [&] { return has_left = true; };
      const Deadline deadline = Deadline::after(10s);
      while (!has_left && !deadline.passed()) group.check_on(leader, has_come);
      expect(has_left, "rank 0's leaving to be seen");
      group.check_on({}, [] { return false; });
      const std::string error = error_of([&] { group.check_on(leader, [] { return false; }); });
      expect(error.find("left the group, while rank 1 waits for it") != std::string::npos, error);
    });
  }
}

TEST_CASE("a timeout names the ranks that have not joined", "[collectives]") {
  run_groups(
      Backend::kShm, 2,
      [](ProcessGroup& group) {
        if (group.rank() == 1) {
          // Stays until rank 0 has given up, but does not take part.
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
