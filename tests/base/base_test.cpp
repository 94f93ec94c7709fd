// SPDX-License-Identifier: MIT
#include <pthread.h>

#include <catch2/catch.hpp>

#include <future>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/busy_with.h"
#include "ddp/base/error.h"
#include "ddp/base/even_part.h"
#include "ddp/base/rank_list.h"
#include "ddp/base/stream.h"
#include "ddp/base/system/dynamic_library.h"
#include "ddp/base/threads/background_thread.h"
#include "ddp/base/threads/run_until.h"
#include "ddp/base/threads/timed_mutex.h"
#include "ddp/base/worker_env.h"
#include "support/run_ranks.h"
#include "support/variables.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::Variables;

// A pointer to something else is no stream, and memory without a type is no operand.
static_assert(std::is_convertible_v<CUstream_st*, Stream>);
static_assert(!std::is_convertible_v<void*, Stream> && !std::is_convertible_v<double*, Stream>);
static_assert(!std::is_constructible_v<Buffer, double*, std::size_t>);

namespace {

WorkerEnv parse(const Variables& variables) { return WorkerEnv::parse(test::lookup_in(variables)); }

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

std::string error_with(const Variables& variables) {
  return error_of([&] { parse(variables); });
}

const Variables kComplete = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_RUN_ID", "job7"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

}  // namespace

TEST_CASE("what was begun last is what a process is busy with", "[busy-with]") {
  CHECK(busy_with().empty());
  {
    const BusyWith outer("saving\nfile");
    CHECK_THAT(busy_with(), Catch::Matches("saving file for 0\\.[0-9] s"));
    {
      const BusyWith inner("loading data");
      CHECK_THAT(busy_with(), Catch::StartsWith("loading data for "));
    }
    CHECK_THAT(busy_with(), Catch::StartsWith("saving file for "));
  }
  CHECK(busy_with().empty());
}

TEST_CASE("a number of seconds may have a fraction", "[base]") {
  const auto seconds = [](const char* text) {
    return EnvReader([text](const char*) { return text; }).seconds("DDP_TIMEOUT");
  };
  CHECK(seconds("600") == Timeout(600'000));
  CHECK(seconds("2.5") == Timeout(2500));
  CHECK(seconds("0.0001") == Timeout(1));
  CHECK(seconds("31536000") == std::chrono::hours(24 * 365));
  CHECK_FALSE(seconds("").has_value());
  for (const char* text : {"0", "-1", "soon", "2 s", "inf", "nan", "1e9"}) {
    CHECK_THAT(
        error_of([&] { (void)seconds(text); }),
        Catch::Contains("DDP_TIMEOUT='" + std::string(text) + "' is not a number of seconds"));
  }
}

TEST_CASE("a reader of the environment may outlive the function that it was given", "[base]") {
  const auto reader = [](const std::string& value) {
    return EnvReader([value](const char*) { return value.c_str(); });
  };
  const EnvReader one = reader("the value of one, too long for a small string");
  const EnvReader other = reader("the value of the other, too long for a small string");
  CHECK(one.text("X") == "the value of one, too long for a small string");
  CHECK(other.text("X") == "the value of the other, too long for a small string");
}

TEST_CASE("a lock is waited for until its deadline", "[base]") {
  TimedMutex mutex;
  std::unique_lock held(mutex);
  const auto try_for = [&](Timeout timeout) {
    return std::unique_lock(mutex, Deadline::after(timeout).time_point()).owns_lock();
  };
  const Deadline early = Deadline::after(20ms);
  CHECK_FALSE(try_for(20ms));
  CHECK(early.passed());
  CHECK_FALSE(try_for(0ms));
  bool has_come = false;
  std::thread other([&] { has_come = try_for(20s); });
  held.unlock();
  other.join();
  CHECK(has_come);
  CHECK(try_for(0ms));
  int counted = 0;
  test::run_ranks(4, [&](int) {
    for (int i = 0; i < 1000; ++i) {
      const std::lock_guard lock(mutex);
      ++counted;
    }
  });
  CHECK(counted == 4000);
}

TEST_CASE("a library is opened at run time", "[base]") {
  using Lifetime = DynamicLibrary::Lifetime;
  const DynamicLibrary math("libm.so.6", Lifetime::kProcess);
  REQUIRE(math.is_open());
  double (*cosine)(double) = nullptr;
  math.load("cos", cosine);
  CHECK(cosine(0) == 1);
  CHECK_FALSE(math.find("no_such_function", cosine));
  CHECK(cosine == nullptr);
  CHECK(error_of([&] { math.load("no_such_function", cosine); }) ==
        "[dynamic_library] libm.so.6 has no function no_such_function");
  CHECK(DynamicLibrary("libm.so.6", Lifetime::kThisIfThere).is_open());
  for (const Lifetime lifetime : {Lifetime::kProcess, Lifetime::kThis, Lifetime::kThisIfThere}) {
    const DynamicLibrary none("libno_such_library.so.1", lifetime);
    CHECK_FALSE(none.is_open());
    CHECK_FALSE(none.find("cos", cosine));
    CHECK_THAT(none.problem(), Catch::Contains("libno_such_library.so.1"));
  }
}

TEST_CASE("the whole environment is read", "[base]") {
  const WorkerEnv env = parse(kComplete);
  CHECK(env.rank == 3);
  CHECK(env.world_size == 4);
  CHECK(env.local_rank == 1);
  CHECK(env.local_world_size == 2);
  CHECK(env.node_rank == 1);
  CHECK(to_string(env.master) == "10.0.0.1:29500");
  CHECK(env.restart_count == 2);
  CHECK(env.run_id == "job7");
  CHECK(env.agent_hosts_store);
}

TEST_CASE("a worker reads from the environment what the launcher wrote", "[base]") {
  const WorkerEnv written{.rank = 5,
                          .world_size = 8,
                          .local_rank = 1,
                          .local_world_size = 4,
                          .node_rank = 1,
                          .master = {"10.0.0.1", 29500},
                          .restart_count = 2,
                          .run_id = "job7",
                          .agent_hosts_store = GENERATE(true, false),
                          .shares_gpus = GENERATE(true, false),
                          .node_count = 2,
                          .max_restarts = 3,
                          .role = "trainer"};
  const EnvironmentChanges changes = to_environment(written, 6);
  const WorkerEnv read = parse({changes.set.begin(), changes.set.end()});
  CHECK(to_environment(read, 6).set == changes.set);
  CHECK(read.rank == 5);
  CHECK(read.world_size == 8);
  CHECK(read.local_rank == 1);
  CHECK(read.local_world_size == 4);
  CHECK(read.node_rank == 1);
  CHECK(to_string(read.master) == "10.0.0.1:29500");
  CHECK(read.restart_count == 2);
  CHECK(read.run_id == "job7");
  CHECK(read.agent_hosts_store == written.agent_hosts_store);
  CHECK(read.shares_gpus == written.shares_gpus);
  CHECK(read.node_count == 2);
  CHECK(read.max_restarts == 3);
  CHECK(read.role == "trainer");
}

TEST_CASE("a launcher sets all variables of the contract and drops those of other launchers",
          "[base]") {
  const EnvironmentChanges changes = to_environment({}, 6);
  CHECK(changes.unset == std::vector<std::string>{"DDP_LAUNCH_TTY", "DDP_WORKER_SLOTS",
                                                  "DDP_CRASH_FILE", "DDP_OVERSUBSCRIBE"});
  CHECK(Variables(changes.set_if_missing.begin(), changes.set_if_missing.end()) ==
        Variables{{"OMP_NUM_THREADS", "6"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}});
}

TEST_CASE("an empty environment is a world of one", "[base]") {
  const WorkerEnv env = parse({});
  CHECK(env.rank == 0);
  CHECK(env.world_size == 1);
  CHECK(parse({{"SLURM_NTASKS", "1"}}).world_size == 1);
}

TEST_CASE("without local variables every rank is on this host", "[base]") {
  Variables variables = kComplete;
  variables.erase("LOCAL_RANK");
  variables.erase("LOCAL_WORLD_SIZE");
  const WorkerEnv env = parse(variables);
  CHECK(env.local_rank == 3);
  CHECK(env.local_world_size == 4);
}

TEST_CASE("a wrong variable is named with its value", "[base]") {
  CHECK(error_with(with(kComplete, "RANK", "4")) == "RANK=4 must be below WORLD_SIZE=4");
  CHECK(error_with(with(kComplete, "RANK", "-1")) == "RANK='-1' is not an integer of at least 0");
  CHECK(error_with(with(kComplete, "RANK", "2x")) == "RANK='2x' is not an integer of at least 0");
  CHECK(error_with(with(kComplete, "WORLD_SIZE", "0")) ==
        "WORLD_SIZE='0' is not an integer of at least 1");
  CHECK(error_with(with(kComplete, "MASTER_PORT", "65536")) ==
        "MASTER_PORT=65536 is not a port (1 to 65535)");
  CHECK(error_with(with(kComplete, "LOCAL_RANK", "2")) ==
        "LOCAL_RANK=2 must be below LOCAL_WORLD_SIZE=2");
  CHECK(error_with(with(kComplete, "LOCAL_WORLD_SIZE", "5")) ==
        "LOCAL_WORLD_SIZE=5 is larger than WORLD_SIZE=4");
  CHECK(error_with(with(kComplete, "LOCAL_WORLD_SIZE", "")) ==
        "LOCAL_RANK is set but LOCAL_WORLD_SIZE is not");
}

TEST_CASE("a world that no store can hold is refused, not counted for minutes", "[base]") {
  CHECK(parse(with(kComplete, "WORLD_SIZE", "65536")).world_size == 65536);
  CHECK(error_with(with(kComplete, "WORLD_SIZE", "2147483647")) ==
        "WORLD_SIZE=2147483647 is more than the 65536 ranks that a job can have");
}

TEST_CASE("a node's number contradicts no number of nodes", "[base]") {
  CHECK(parse(kComplete).node_rank == 1);
  CHECK(error_with(with(kComplete, "GROUP_WORLD_SIZE", "1")) ==
        "GROUP_RANK=1 must be below GROUP_WORLD_SIZE=1");
}

TEST_CASE("a switch is True or False, and nothing that looks like it", "[base]") {
  const auto flag = [](const char* text) {
    return EnvReader([text](const char*) { return text; }).flag("DDP_CHECK");
  };
  for (const char* text : {"True", "true", "1"}) CHECK(flag(text));
  for (const char* text : {"False", "false", "0", ""}) CHECK_FALSE(flag(text));
  for (const char* text : {"yes", "on", "2", "TRUE "}) {
    CHECK(error_of([&] { (void)flag(text); }) ==
          "DDP_CHECK='" + std::string(text) + "' is neither True (or 1) nor False (or 0)");
  }
  for (const char* name : {"TORCHELASTIC_USE_AGENT_STORE", "DDP_OVERSUBSCRIBE"}) {
    CHECK_THAT(error_with(with(kComplete, name, "yes")), Catch::StartsWith(name));
  }
}

TEST_CASE("an incomplete environment is an error that names what is missing", "[base]") {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    CHECK_THAT(error_with(with(kComplete, name, "")),
               Catch::Contains("incomplete: " + std::string(name) + " not set"));
  }
  CHECK_THAT(error_with({{"MASTER_PORT", "tcp://10.0.0.1:29500"}}),
             Catch::Contains("MASTER_ADDR not set, but MASTER_PORT=tcp://10.0.0.1:29500, as "
                             "Kubernetes sets it for a service named master"));
  CHECK_THAT(error_with({{"LOCAL_RANK", "0"}}),
             Catch::EndsWith("none of them for a single process and unset LOCAL_RANK)"));
}

TEST_CASE("several processes without ranks are refused, and do not become worlds of one",
          "[base]") {
  for (const char* name : {"SLURM_NTASKS", "PMI_SIZE"}) {
    CHECK_THAT(error_with({{name, "2"}}), Catch::StartsWith(std::string(name) + "=2 but RANK"));
  }
}

TEST_CASE("nested errors read as one sentence", "[base]") {
  try {
    try {
      throw SystemError("cannot open x", ENOENT);
    } catch (...) {
      std::throw_with_nested(FileError("loading the checkpoint"));
    }
  } catch (const std::exception& error) {
    CHECK(describe(error) == "loading the checkpoint: cannot open x: No such file or directory");
    CHECK(describe(std::current_exception()) == describe(error));
  }
}

TEST_CASE("ranks are listed in ranges, and some if there are many", "[base]") {
  const auto list = [](const std::vector<int>& ranks) { return rank_list(ranks); };
  CHECK(list({3}) == "rank 3");
  CHECK(list({2, 3}) == "ranks 2, 3");
  CHECK(list({0, 1, 2, 3, 8}) == "ranks 0-3, 8");
  CHECK(list({1, 4, 5, 7, 8, 9}) == "ranks 1, 4, 5, 7-9");
  std::vector<int> odd;
  for (int rank = 1; rank < 40; rank += 2) odd.push_back(rank);
  CHECK(list(odd) == "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 and 4 more");
}

TEST_CASE("even parts lie one after the other and differ by at most one", "[base]") {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{13}, kMost}) {
    for (const std::size_t parts : {1, 2, 3, 4, 16}) {
      CAPTURE(count, parts);
      std::size_t end = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        const EvenPart part = even_part(count, i, parts);
        CHECK(part.begin == end);
        CHECK(part.count - count / parts <= 1);
        end += part.count;
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("one of a thing is counted in the singular", "[base]") {
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(2, "other rank") == "2 other ranks");
}

TEST_CASE("a lack of memory is called so", "[base]") {
  CHECK(describe(std::bad_alloc()) == "out of memory (std::bad_alloc)");
}

TEST_CASE("a thread that cannot be started is named with what may limit it", "[base]") {
  pthread_attr_t old;
  REQUIRE(pthread_getattr_default_np(&old) == 0);
  pthread_attr_t huge = old;
  REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  const std::string error =
      test::error_of([] { start_background_thread("ddp-test", [] {}).join(); });
  REQUIRE(pthread_setattr_default_np(&old) == 0);
  CHECK_THAT(error,
             Catch::StartsWith("cannot start the thread ddp-test") && Catch::Contains("ulimit -u"));
}

TEST_CASE("a call that hangs is left behind at its deadline", "[base]") {
  const auto release = std::make_shared<std::promise<void>>();
  const auto released = std::make_shared<std::promise<void>>();
  CHECK_FALSE(run_until(Deadline::after(10ms), [=] {
    release->get_future().wait();
    released->set_value();
  }));
  release->set_value();
  CHECK(released->get_future().wait_for(5s) == std::future_status::ready);
  CHECK(run_until(Deadline::after(5s), [] {}));
  CHECK(error_of([] {
          static_cast<void>(
              run_until(Deadline::after(5s), [] { throw std::runtime_error("from the call"); }));
        }) == "from the call");
}

TEST_CASE("host allocations are aligned and zeroed, and empty ones are fine", "[base]") {
  const Allocation memory = allocate_host(1001);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % kHostAlignment == 0);
  const Buffer bytes{memory.data(), 1001, DType::kUInt8, kCpuDevice};
  for (const std::uint8_t byte : bytes.as<std::uint8_t>()) REQUIRE(byte == 0);
  CHECK(allocate_host(0).data() == nullptr);
  const auto too_much = [] { return allocate_host(std::numeric_limits<std::size_t>::max()); };
  CHECK_THROWS_AS(too_much(), std::bad_alloc);
  CHECK(error_of([&] { static_cast<void>(too_much()); }) ==
        "out of memory (cannot allocate 18446744073709551615 bytes of host memory)");
}

TEST_CASE("the text of a buffer gives its dtype, count and device", "[base]") {
  std::vector<float> values(5);
  const Buffer buffer = buffer_of(values);
  CHECK(to_string(buffer) == "float32[5] on cpu");
  CHECK(buffer.slice(2, 3).data == values.data() + 2);
  CHECK(buffer.size_bytes() == 20);
}

TEST_CASE("vectors, arrays and spans are buffers", "[base]") {
  std::vector<float> vector(3);
  std::array<double, 2> array{};
  std::int64_t plain[4] = {};
  const std::span<float, 3> fixed(vector.data(), 3);
  CHECK(to_string(buffer_of(vector)) == "float32[3] on cpu");
  CHECK(to_string(buffer_of(array)) == "float64[2] on cpu");
  CHECK(to_string(buffer_of(plain)) == "int64[4] on cpu");
  CHECK(to_string(buffer_of(fixed)) == "float32[3] on cpu");
  CHECK(to_string(buffer_of(std::span(vector))) == "float32[3] on cpu");
}

TEST_CASE("a buffer's elements are not read as another type", "[base]") {
  std::vector<float> values(5);
  const Buffer buffer = buffer_of(values);
  CHECK(buffer.as<float>().data() == values.data());
  CHECK(buffer.as<const float>().size() == 5);
  const std::string of_this_buffer = "a buffer of float32[5] on cpu is read or written as ";
  CHECK(error_of([&] { (void)buffer.as<double>(); }) == of_this_buffer + "float64");
  CHECK(error_of([&] { (void)buffer.as<const BFloat16>(); }) == of_this_buffer + "bfloat16");
  CHECK_THROWS_AS(buffer.as<std::int32_t>(), std::logic_error);
}
