// SPDX-License-Identifier: MIT
//
// Errors, timeouts and ranks that leave, on several simulated hosts: each is the same for all
// hosts.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "support/files.h"
#include "support/gate.h"
#include "support/groups.h"
#include "support/hosts.h"
#include "support/scoped_variable.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::kInterleaved;
using test::kPairs;
using test::run_on_hosts;

namespace {

// The errors of call(group), by rank.
template <class Call>
std::vector<std::string> errors_on(const std::vector<int>& hosts, const Call& call) {
  std::vector<std::string> errors(hosts.size());
  run_on_hosts(hosts, [&](ProcessGroup& group) {
    std::string& error = errors[static_cast<std::size_t>(group.rank())];
    error = error_of([&] { call(group); });
    // No rank leaves before all ranks have seen the error.
    group.store().set("seen/" + std::to_string(group.rank()), "");
    for (int rank = 0; rank < group.world_size(); ++rank) {
      (void)group.store().get("seen/" + std::to_string(rank), 60s);
    }
  });
  return errors;
}

// The error of f(), which begins with "late: " if it took longer than that.
template <class F>
std::string error_within(Timeout time, const F& f) {
  const Deadline promised = Deadline::after(time);
  const std::string error = error_of(f);
  return (promised.passed() ? "late: " : "") + error;
}

void check_all_equal(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == errors[0]);
}

}  // namespace

TEST_CASE("different calls are an error on every rank, whose ranks are the group's", "[hosts]") {
  const auto inside = errors_on(kPairs, [&](ProcessGroup& group) {
    std::vector<float> own(9);
    group.all_reduce(buffer_of(own).slice(0, group.rank() == 3 ? 9 : 8)).wait();
  });
  check_all_equal(inside);
  CHECK(inside[0] ==
        "[shm+tcp] ranks called different collectives: rank 2 called #1 all_reduce(float32[8], "
        "sum), rank 3 called #1 all_reduce(float32[9], sum)");
  const auto between = errors_on(kInterleaved, [&](ProcessGroup& group) {
    std::vector<float> own(8);
    if (group.rank() % 2 == 0) group.all_reduce(buffer_of(own)).wait();
    if (group.rank() % 2 == 1) group.reduce(buffer_of(own), 0).wait();
  });
  check_all_equal(between);
  CHECK(between[0] ==
        "[shm+tcp] ranks called different collectives: rank 0 called #1 all_reduce(float32[8], "
        "sum), rank 1 called #1 reduce(float32[8], sum, root 0)");
}

TEST_CASE("no rank has gathered before its leader knows what the other hosts call", "[hosts]") {
  for (int round = 0; round < 20; ++round) {
    const auto errors = errors_on(kPairs, [](ProcessGroup& group) {
      std::vector<float> own(8), all(32);
      if (group.rank() < 2) group.gather(buffer_of(own), buffer_of(all), 0).wait();
      if (group.rank() >= 2) group.reduce(buffer_of(own), 0).wait();
    });
    check_all_equal(errors);
    CHECK_THAT(errors[1], Catch::StartsWith("[shm+tcp] ranks called different collectives: "));
  }
}

TEST_CASE("a send and its recv that differ are an error on every rank", "[hosts]") {
  const bool stays_inside = GENERATE(true, false);
  CAPTURE(stays_inside);
  const int from = stays_inside ? 3 : 0;
  const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
    std::vector<float> sent(4), received(6);
    auto batch = group.batch();
    if (group.rank() == from) (void)group.send(buffer_of(sent), 2);
    if (group.rank() == 2) (void)group.recv(buffer_of(received).slice(0, 5), from);
    // Others are in transfers that are right, inside a host and between hosts.
    if (group.rank() == 1) (void)group.recv(buffer_of(received).slice(0, 1), 0);
    if (group.rank() == 2) (void)group.recv(buffer_of(received).slice(5, 1), 1);
    batch.end().wait();
    group.recv(buffer_of(received).slice(0, 1), 2).wait();
  });
  check_all_equal(errors);
  CHECK(errors[0] == "[shm+tcp] send and recv differ: rank " + std::to_string(from) +
                         " called #1 send(float32[4]) to rank 2, which called #1 recv(float32[5])");
}

TEST_CASE("a collective on another host against transfers is told with the transfer", "[hosts]") {
  const bool is_batch = GENERATE(false, true);
  const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
    std::vector<float> four(4), three(3);
    if (group.rank() == 0) {
      auto batch = group.batch();
      (void)group.recv(buffer_of(four), 1);
      if (is_batch) (void)group.send(buffer_of(three), 2);
      batch.end().wait();
    } else if (group.rank() == 1) {
      group.all_reduce(buffer_of(four)).wait();
    } else if (group.rank() == 2 && is_batch) {
      group.recv(buffer_of(three), 0).wait();
    }
  });
  CHECK_THAT(errors[0], Catch::Contains("rank 0 called #1 recv(float32[4]), rank 1 called #1 "
                                        "all_reduce(float32[4], sum)"));
  CHECK(errors[1] == errors[0]);
}

TEST_CASE("a mismatch keeps its class on every rank", "[hosts]") {
  run_on_hosts(kPairs, [](ProcessGroup& group) {
    std::vector<float> values(8);
    bool is_mismatch = false;
    try {
      group.broadcast(buffer_of(values), group.rank() < 2 ? 0 : 1).wait();
    } catch (const MismatchError&) {
      is_mismatch = true;
    }
    expect(is_mismatch, "MismatchError on rank " + std::to_string(group.rank()));
  });
}

TEST_CASE("a rank that aborts is named on all hosts", "[hosts]") {
  for (int aborter = 0; aborter < 4; ++aborter) {
    const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
      if (group.rank() == aborter) group.abort("the disk is full");
      float value = 1;
      group.all_reduce(buffer_of(std::span(&value, 1))).wait();
    });
    check_all_equal(errors);
    CHECK(errors[0] == "[shm+tcp] rank " + std::to_string(aborter) + " aborted: the disk is full");
  }
}

TEST_CASE("a rank that leaves is named on all hosts", "[hosts]") {
  for (int leaver = 0; leaver < 4; ++leaver) {
    std::vector<std::string> errors(4);
    run_on_hosts(kPairs, [&](ProcessGroup& group) {
      if (group.rank() == leaver) return;
      float value = 1;
      const auto call = [&] { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); };
      const Deadline promised = Deadline::after(5 * 2s);
      const std::string error = error_of(call);
      expect(!promised.passed(), "in time");
      const std::string name = "[shm+tcp] rank " + std::to_string(leaver) + " (";
      expect(
          error.find(name) == 0 && error.find(") left the group, while rank") != std::string::npos,
          error);
      expect(error.find("is in #1 all_reduce(float32[1], sum)") != std::string::npos, error);
    });
  }
}

TEST_CASE("a timeout is a TimeoutError on all hosts", "[hosts]") {
  for (const int absent : {0, 3}) {
    const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
      if (group.rank() == absent) return;
      const ScopedTimeout timeout(group, 300ms);
      float value = 1;
      group.all_reduce(buffer_of(std::span(&value, 1))).wait();
    });
    for (int rank = 0; rank < 4; ++rank) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      if (rank == absent) continue;
      CHECK(error == errors[1]);
      CHECK_THAT(error, Catch::StartsWith("[shm+tcp] rank ") &&
                            Catch::Contains("timed out after 300 ms in #1 all_reduce"));
    }
  }
}

// A mate's timeout inside the host would hide that between the hosts.
TEST_CASE("a host that is silent is a TimeoutError on another host's only rank", "[hosts]") {
  const auto errors = errors_on({0, 0, 1}, [](ProcessGroup& group) {
    if (group.rank() < 2) return;
    const ScopedTimeout timeout(group, 300ms);
    float value = 1;
    throw std::runtime_error(
        error_within(20s, [&] { group.all_reduce(buffer_of(std::span(&value, 1))).wait(); }));
  });
  CHECK_THAT(errors[2], Catch::StartsWith("[shm+tcp] rank ") &&
                            Catch::Contains("timed out after 300 ms in #1 all_reduce"));
}

TEST_CASE("a transfer inside a host or between hosts has the timeout of its call", "[hosts]") {
  for (const int peer : {1, 2}) {
    const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
      if (group.rank() != 0) return;
      const ScopedTimeout timeout(group, 300ms);
      float value = 1;
      throw std::runtime_error(
          error_within(20s, [&] { group.recv(buffer_of(std::span(&value, 1)), peer).wait(); }));
    });
    CHECK_THAT(errors[0], Catch::StartsWith("[shm+tcp] rank ") &&
                              Catch::Contains("timed out after 300 ms in") &&
                              Catch::Contains("recv(float32[1])"));
  }
}

TEST_CASE("the first deadline of transfers inside a host and between hosts ends them", "[hosts]") {
  for (const int hasty_peer : {1, 2}) {
    const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
      if (group.rank() != 0) return;
      std::vector<float> received(3);
      auto batch = group.batch();
      for (const int peer : {1, 2, 3}) {
        const ScopedTimeout timeout(group, peer == hasty_peer ? Timeout(300) : Timeout(15000));
        const auto place = static_cast<std::size_t>(peer - 1);
        // The quick one is told from the others by its size.
        (void)group.recv(buffer_of(received).slice(place, peer == hasty_peer ? 1 : 0), peer);
      }
      throw std::runtime_error(error_within(10s, [&] { batch.end().wait(); }));
    });
    CHECK_THAT(errors[0], Catch::StartsWith("[shm+tcp] rank ") &&
                              Catch::Contains("timed out after 300 ms in") &&
                              Catch::Contains("recv(float32[1])"));
  }
}

TEST_CASE("a transfer that is done puts no deadline off, nor does it time out", "[hosts]") {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 0, 1}, std::vector{0, 1, 1, 0}}) {
    const auto errors = errors_on(hosts, [](ProcessGroup& group) {
      std::vector<float> values(3);
      if (group.rank() == 1) group.send(buffer_of(values).slice(0, 1), 0).wait();
      if (group.rank() != 0) return;
      auto batch = group.batch();
      const auto receive_within = [&](Timeout time, std::size_t count, int peer) {
        const ScopedTimeout timeout(group, time);
        (void)group.recv(buffer_of(values).slice(0, count), peer);
      };
      receive_within(3s, 1, 1);  // rank 1 may be late
      receive_within(15s, 2, 2);
      receive_within(4s, 3, 3);
      throw std::runtime_error(error_within(10s, [&] { batch.end().wait(); }));
    });
    CHECK_THAT(errors[0], Catch::StartsWith("[shm+tcp] rank ") &&
                              Catch::Contains("timed out after 4000 ms in") &&
                              Catch::Contains("recv(float32[3])"));
  }
}

TEST_CASE("a peer that leaves ends a batch of transfers at once, on whichever host it is",
          "[hosts]") {
  for (const int gone : {1, 2}) {
    for (const int first : {1, 2}) {
      test::Gate errors;
      run_on_hosts(kPairs, [&](ProcessGroup& group) {
        if (group.rank() == gone) return;
        if (group.rank() > 0) return expect(errors.wait_for(1), "rank 0's error");
        std::vector<float> received(2);
        auto batch = group.batch();
        (void)group.recv(buffer_of(received).slice(0, 1), first);
        (void)group.recv(buffer_of(received).slice(1, 1), 3 - first);
        const std::string error = error_within(5s, [&] { batch.end().wait(); });
        errors.raise();
        expect(error.starts_with("[shm+tcp] rank " + std::to_string(gone) + " ") &&
                   error.find(" left the group") != std::string::npos,
               error);
      });
    }
  }
}

TEST_CASE("the peer of a transfer is named if it leaves, not one that left before", "[hosts]") {
  const int gone = GENERATE(0, 1);
  const auto store = std::make_shared<HashStore>();
  test::Gate one_has_left;
  test::run_ranks(4, [&](int rank) {
    auto group = make_hierarchical_process_group(
        {.store = store, .rank = rank, .world_size = 4, .start_timeout = test::kStartTimeout},
        kPairs, "127.0.0.1");
    if (rank == 3) {
      group.reset();
      return one_has_left.raise();
    }
    if (rank == gone) return expect(one_has_left.wait_for(1), "rank 3 to leave");
    std::vector<float> received(1);
    const std::string error =
        error_within(10s, [&] { group->recv(buffer_of(received), gone).wait(); });
    expect(error.starts_with("[shm+tcp] rank " + std::to_string(gone) + " (") &&
               error.find(") left the group, while rank ") != std::string::npos,
           error);
  });
}

TEST_CASE("a rank that breaks with another rank's timeout does not report its own", "[hosts]") {
  const bool is_transfer = GENERATE(false, true);
  for (int round = 0; round < 5; ++round) {
    const auto errors = errors_on({0, 0, 0, 1}, [&](ProcessGroup& group) {
      if (group.rank() > 1) return;
      const ScopedTimeout timeout(group, group.rank() == 0 ? Timeout(300) : Timeout(15000));
      std::vector<float> value(1);
      const Buffer buffer = buffer_of(value);
      (is_transfer ? group.recv(buffer, 1 - group.rank()) : group.all_reduce(buffer)).wait();
    });
    CHECK_THAT(errors[0], Catch::Contains("timed out after 300 ms in"));
    CHECK(errors[1] == errors[0]);
  }
}

TEST_CASE("a transfer inside a host fails with one between hosts that concerns other ranks",
          "[hosts]") {
  const bool has_done_another = GENERATE(false, true);
  const auto errors = errors_on(kPairs, [&](ProcessGroup& group) {
    std::vector<float> values(2);
    const Buffer first = buffer_of(values).slice(0, 1);
    if (group.rank() == 0) {
      auto batch = group.batch();
      (void)group.recv(first, 1);
      if (has_done_another) (void)group.send(buffer_of(values).slice(1, 1), 3);
      batch.end().wait();
    } else if (group.rank() == 2) {
      const ScopedTimeout timeout(group, 400ms);
      group.recv(first, 1).wait();
    } else if (group.rank() == 3 && has_done_another) {
      group.recv(first, 0).wait();
    }
  });
  CHECK_THAT(errors[2], Catch::Contains("timed out after 400 ms"));
  CHECK(errors[0] == errors[2]);
}

TEST_CASE("a timeout between hosts is the error of ranks whose transfers stay inside theirs, too",
          "[hosts]") {
  for (int round = 0; round < 5; ++round) {
    const auto errors = errors_on(kPairs, [](ProcessGroup& group) {
      std::vector<float> four(4), three(3);
      if (group.rank() > 0) {
        // Rank 0 receives from 1, and ranks 2 and 3 from each other.
        const int peer = std::array{0, 0, 3, 2}[static_cast<std::size_t>(group.rank())];
        return group.recv(buffer_of(three), peer).wait();
      }
      auto batch = group.batch();
      {
        const ScopedTimeout timeout(group, 300ms);
        (void)group.recv(buffer_of(four), 2);
      }
      (void)group.recv(buffer_of(three), 1);
      batch.end().wait();
    });
    check_all_equal(errors);
    CHECK_THAT(errors[0], Catch::StartsWith("[shm+tcp] rank 0: timed out after 300 ms in #1 "
                                            "recv(float32[4]) "));
  }
}

TEST_CASE("the events of a group's parts inside hosts and between them are told apart", "[hosts]") {
  const test::TemporaryDirectory folder;
  const std::string file = folder / "events.txt";
  const test::ScopedVariable events("DDP_EVENTS_FILE", file.c_str());
  (void)errors_on(kPairs, [](ProcessGroup& group) {
    std::vector<float> values(group.rank() == 3 ? 2 : 1);
    group.all_reduce(buffer_of(values)).wait();
  });
  const std::string text = test::bytes_of(file);
  for (const char* group : {"default of 4", "default/flat of 4", "default/leaders of 2",
                            "default/host0 of 2", "default/host1 of 2"}) {
    CHECK_THAT(text, Catch::Contains(std::string(", group ") + group + " ranks]"));
  }
}
