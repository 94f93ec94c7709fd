// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/rendezvous.h"

#include <catch2/catch.hpp>

#include <chrono>

#include "ddp/base/error.h"
#include "ddp/collectives/start/backend_choice.h"
#include "ddp/store/tcp_server.h"
#include "ddp/store/tcp_store.h"
#include "support/free_endpoint.h"
#include "support/grouping_locale.h"
#include "support/groups.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;

namespace {

Hello on_cpu(const std::string& host) {
  return {.who = {.host = host, .host_name = host, .pid = 7, .device = "cpu"}, .build = "1"};
}

Hello on_gpu(const std::string& host, const std::string& bus_id) {
  Hello hello = on_cpu(host);
  hello.who.device = "cuda:0";
  hello.gpu = bus_id;
  hello.nccl = "2.28.9";
  hello.nccl_path = "/" + host + "/libnccl.so.2";
  return hello;
}

std::string refusal(std::vector<Hello> hellos) {
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    hellos[rank].who.rank = static_cast<int>(rank);
  }
  return error_of([&] { (void)choose_backend(hellos); });
}

Hello as_rank(int rank, int world_size, Hello hello) {
  hello.who.rank = rank;
  hello.world_size = world_size;
  return hello;
}

}  // namespace

TEST_CASE("ranks choose the backend that fits their hosts and devices", "[rendezvous]") {
  CHECK(choose_backend({on_cpu("a"), on_cpu("a")}) == Backend::kShm);
  CHECK(choose_backend({on_cpu("a"), on_cpu("b")}) == Backend::kTcp);
  CHECK(choose_backend({on_cpu("a"), on_cpu("b"), on_cpu("a")}) == Backend::kShmTcp);
  CHECK(choose_backend({on_gpu("a", "1"), on_gpu("a", "2")}) == Backend::kNccl);
  CHECK(choose_backend({on_gpu("a", "1"), on_gpu("b", "1")}) == Backend::kNccl);
}

TEST_CASE("a backend for several hosts is refused if it does not fit", "[rendezvous]") {
  Hello here = on_cpu("a");
  here.backend = Backend::kShmTcp;
  Hello there = on_cpu("b");
  there.backend = Backend::kShmTcp;
  CHECK(choose_backend({here, there, here}) == Backend::kShmTcp);
  CHECK_THAT(refusal({here, here}), Catch::Contains("all ranks are on one host; use shm"));
  CHECK_THAT(refusal({here, there}), Catch::Contains("no two ranks are on one host; use tcp"));
  here.backend = there.backend = Backend::kTcp;
  CHECK(choose_backend({here, there, here}) == Backend::kTcp);
}

TEST_CASE("a rank that cannot share memory counts as alone on its host", "[rendezvous]") {
  Hello hello = on_cpu("a");
  Hello alone = hello;
  alone.alone_because = "memfd_create is refused";
  CHECK(hosts_of({hello, alone, hello, alone}) == std::vector<int>{0, 1, 0, 2});
  CHECK(choose_backend({alone, alone}) == Backend::kTcp);
  alone.backend = hello.backend = Backend::kShm;
  CHECK_THAT(refusal({hello, alone}), Catch::Contains("rank 1 (a, pid 7, cpu) cannot share memory: "
                                                      "memfd_create is refused") &&
                                          Catch::Contains("choose tcp (InitOptions::backend)"));
}

TEST_CASE("two ranks on one GPU are refused with three remedies", "[rendezvous]") {
  const std::string error = refusal({on_gpu("a", "1"), on_gpu("a", "2"), on_gpu("a", "1")});
  CHECK_THAT(error, Catch::Contains("rank 0 (a, pid 7, cuda:0) and rank 2 (a, pid 7, cuda:0)"));
  CHECK_THAT(error, Catch::Contains("one worker per GPU"));
  CHECK_THAT(error, Catch::Contains("DDP_OVERSUBSCRIBE"));
  CHECK_THAT(error, Catch::Contains("the CPU (InitOptions::device)"));
}

// The ranks must learn this here at the latest, before NCCL is called.
TEST_CASE("all ranks learn at once that two of them are on one GPU", "[rendezvous]") {
  const TcpServer server({"127.0.0.1", 0});
  const Deadline promised = Deadline::after(5 * 1s);
  test::run_ranks(3, [&](int rank) {
    TcpStore store(server.endpoint(), 20s, rank);
    const Hello self = as_rank(rank, 3, on_gpu("a", rank == 2 ? "1" : std::to_string(rank)));
    StartPatience patience(20s);
    const std::string error = error_of([&] { (void)agree_on_plan(store, self, patience); });
    expect(error.find("are on the same GPU 1") != std::string::npos, error);
    expect(error.find("DDP_OVERSUBSCRIBE") != std::string::npos, error);
  });
  CHECK_FALSE(promised.passed());
}

TEST_CASE("sharing a GPU on purpose is allowed", "[rendezvous]") {
  Hello hello = on_gpu("a", "1");
  hello.shares_gpu = true;
  CHECK(choose_backend({hello, hello}) == Backend::kNccl);
}

TEST_CASE("a difference between ranks is an error that names both", "[rendezvous]") {
  Hello other = on_cpu("a");
  other.build = "2";
  CHECK_THAT(refusal({on_cpu("a"), other}), Catch::Contains("has 1") && Catch::Contains("has 2"));
  CHECK_THROWS_AS(choose_backend({on_cpu("a"), other}), MismatchError);
  CHECK_THAT(refusal({on_cpu("a"), on_gpu("a", "1")}), Catch::Contains("kind of device"));
  Hello older = on_gpu("b", "1");
  older.nccl = "2.20.3";
  CHECK_THAT(refusal({on_gpu("a", "1"), older}),
             Catch::Contains("2.28.9 from /a/libnccl.so.2, rank 1") &&
                 Catch::EndsWith("has 2.20.3 from /b/libnccl.so.2"));
  Hello wants_shm = on_cpu("a");
  wants_shm.backend = Backend::kShm;
  Hello elsewhere = wants_shm;
  elsewhere.who.host = "b";
  CHECK_THAT(refusal({wants_shm, elsewhere}), Catch::Contains("several hosts"));
}

TEST_CASE("a hello is serialised and parsed unchanged", "[rendezvous]") {
  Hello hello = as_rank(2, 5, on_gpu("host", "0000:3b:00.0"));
  hello.backend = Backend::kNccl;
  hello.shares_gpu = true;
  hello.alone_because = "/proc is not mounted";
  const Hello copy = parse_hello(serialize(hello));
  CHECK(serialize(copy) == serialize(hello));
  CHECK(copy.who.rank == 2);
  CHECK(copy.world_size == 5);
  CHECK(copy.gpu == "0000:3b:00.0");
  CHECK(copy.shares_gpu);
  CHECK(copy.alone_because == hello.alone_because);
  CHECK_FALSE(error_of([] { (void)parse_hello("something else"); }).empty());
}

TEST_CASE("all ranks get the same error if they cannot work together", "[rendezvous]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(3, [&](int rank) {
    const Backend asked = rank == 2 ? Backend::kTcp : Backend::kShm;
    const std::string error = error_of([&] {
      (void)init_process_group({.backend = asked,
                                .device = DeviceChoice::kCpu,
                                .rank = rank,
                                .world_size = 3,
                                .store = store,
                                .ranks_are_threads = true});
    });
    expect(error.find("the backend they ask for") != std::string::npos, error);
    expect(error.find("has shm, rank 2") != std::string::npos, error);
  });
}

TEST_CASE("a refusal has the same class on every rank", "[rendezvous]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(2, [&](int rank) {
    Hello self = as_rank(rank, 2, on_cpu("a"));
    self.build = std::to_string(rank);
    StartPatience patience(20s);
    bool mismatch = false;
    try {
      (void)agree_on_plan(*store, self, patience);
    } catch (const MismatchError&) {
      mismatch = true;
    }
    expect(mismatch, "no MismatchError on rank " + std::to_string(rank));
  });
}

TEST_CASE("a process may create its group again", "[rendezvous]") {
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(3, [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      const auto group = init_process_group({.device = DeviceChoice::kCpu,
                                             .rank = rank,
                                             .world_size = 3,
                                             .store = store,
                                             .ranks_are_threads = true});
      double sum = rank;
      group->all_reduce(buffer_of(std::span(&sum, 1))).wait();
      expect(sum == 3, "0 + 1 + 2");
    }
  });
}

TEST_CASE("a program whose locale groups digits starts a group and reduces", "[rendezvous]") {
  const test::GroupingLocale locale;
  const Backend backend = GENERATE(Backend::kShm, Backend::kTcp);
  const auto store = std::make_shared<HashStore>();
  test::run_ranks(3, [&](int rank) {
    const auto group = init_process_group({.backend = backend,
                                           .device = DeviceChoice::kCpu,
                                           .rank = rank,
                                           .world_size = 3,
                                           .store = store,
                                           .ranks_are_threads = true,
                                           .address = "127.0.0.1",
                                           .start_timeout = 20s});
    double sum = rank;
    group->all_reduce(buffer_of(std::span(&sum, 1))).wait();
    expect(sum == 3, "0 + 1 + 2");
  });
}

TEST_CASE("options that do not say how to reach the others are refused at once", "[rendezvous]") {
  const auto begin = Clock::now();
  const std::string error = error_of(
      [] { (void)init_process_group({.device = DeviceChoice::kCpu, .rank = 0, .world_size = 2}); });
  // The variables may be missing in the test's environment or in the options.
  CHECK_THAT(error, Catch::Contains("MASTER_ADDR"));
  CHECK(Clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("a rank 0 that hosts the store waits until all have read the error", "[rendezvous]") {
  const Endpoint endpoint = test::free_endpoint();
  test::run_ranks(4, [&](int rank) {
    const std::string error = error_of([&] {
      (void)init_process_group({.backend = rank == 3 ? Backend::kTcp : Backend::kShm,
                                .device = DeviceChoice::kCpu,
                                .rank = rank,
                                .world_size = 4,
                                .master = endpoint});
    });
    expect(error.find("has shm, rank 3") != std::string::npos, error);
  });
}
