// SPDX-License-Identifier: MIT
//
// A worker for tests of how jobs end or hang: collective_worker MODE [BACKEND [patient]]
//   loop         calls all_reduce in an endless loop
//   loop-large   the same with 64 MiB of ordinary memory
//   loop-allocated  the same with 64 MiB of the group's memory; also for the backend nccl
//   loop-part    the same in a group of all ranks but the first, made by split()
//   leave-allocated  the same, but the last rank returns from main after four calls
//   late         leaves an all_reduce in flight; rank 0 calls it two seconds after the
//                others, which a rank that fails would not wait for; for the backend nccl
//   send-stop    rank 0 sends 256 MiB to rank 1, which stops itself (SIGSTOP) in the middle, and
//                says so before if it comes "too late" for that
//   batch        rank 0 receives from all others in one batch; they wait for their stdin instead
//   exit         calls exit(0) while collectives are pending
//   return       returns from main while collectives are pending
//   throw        throws an exception out of a frame that owns the group
//   uncaught     throws an exception that nothing catches while collectives are pending
//   step-exit, step-return, step-throw, step-uncaught
//                the same in the middle of a step of DistributedDataParallel
//   step-static  returns from main in the middle of a step, with a group and an engine of static
//                storage duration
//                (all of these also for the backend nccl)
//   children     destroys a group and its children, each with pending collectives, in some order
//   early        rank 0 leaves; the others call all_reduce in an endless loop
//   fork         asks a child that it has forked, not itself, to stop
//   log          returns from main while another thread is logging
//   sum          calls all_reduce once; rank 0 prints the sum
//   again        makes three groups one after the other and calls all_reduce in each
//   without-main-thread  the same on another thread, while the main thread has ended
//   sum-placed   the same, and it passes RANK, WORLD_SIZE and MASTER_* to init_process_group
//   sum-allocated  the same with the group's memory, where each rank has its rank + 1; also for the
//                backend nccl
//   kind         after a byte on stdin, the last rank calls broadcast, the others all_reduce; then
//                all call all_reduce in an endless loop; also for the backend nccl
//   count        the same, but the last rank's operand is shorter
//   dtype        the same, but the last rank's operand has another type
//   absent       calls all_reduce in steps; in the fifth, the last rank waits for its stdin instead
//   split        splits the group; the last rank waits for its stdin instead
//   on_rank0     rank 0 waits for its stdin in on_rank0
//   fail         calls all_reduce in steps; in the fifth, the last rank throws
//   crash        the same, but the last rank raises SIGSEGV
//   fail-cuda    the same, but the last rank has a CUDA error, or an error because CUDA is missing
//   fail-slowly  like fail, but the last rank ends slowly
//   fail-in-step  the last rank throws in the middle of the third step of DistributedDataParallel,
//                which the others begin two seconds later
//   fail-among-aborters  like fail, and the other ranks call abort
// It prints "rank R ready, pid P" when it communicates. On an error it prints the text and returns
// 3. The hang watch is ten times as fast as by default, and the timeout is three seconds; with the
// backend nccl only in the endless loops. A "patient" worker has all of the library's defaults.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ddp/collectives/group_state.h"
#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/cuda/cuda.h"
#include "ddp/ddp.h"

namespace {

using namespace std::chrono_literals;

struct Patience {
  std::optional<ddp::Timeout> timeout = std::nullopt;
  ddp::HangWatchOptions hang_watch = {};
  ddp::OnRank0Options on_rank0 = {};
};

constexpr Patience kQuick = {.timeout = 3s,
                             .hang_watch = {.period = 100ms, .patience = 800ms, .window = 1s},
                             .on_rank0 = {.period = 100ms, .silence = 1s}};
constexpr Patience kPatient = {};
// The timeout of the first operation, in which NCCL connects and loads its kernels.
constexpr ddp::Timeout kConnectTimeout = 30s;

// 100003 ones.
struct Values {
  explicit Values(ddp::Device device)
      : memory(device.is_cuda() ? ddp::cu::allocate_device(kCount * sizeof(float), device)
                                : ddp::allocate_host(kCount * sizeof(float))),
        buffer{memory.data(), kCount, ddp::DType::kFloat32, device} {
    ddp::fill(buffer, 1);
  }

  static constexpr std::size_t kCount = 100003;
  ddp::Allocation memory;
  ddp::Buffer buffer;
};

void all_reduce_in_flight(ddp::ProcessGroup& group, const ddp::Buffer& values) {
  for (int i = 0; i < 20; ++i) (void)group.all_reduce(values);
}

void ready(const ddp::ProcessGroup& group) {
  std::printf("rank %d ready, pid %d\n", group.rank(), ::getpid());
  std::fflush(stdout);
}

constexpr std::size_t kLargeBytes = std::size_t{64} << 20;
constexpr std::size_t kRegisteredBytes = std::size_t{1} << 20;  // NCCL registers no less

[[noreturn]] void loop(ddp::ProcessGroup& group, const ddp::Buffer& values,
                       std::optional<ddp::Timeout> timeout) {
  const ddp::ScopedTimeout quick(group, timeout.value_or(group.timeout()));
  for (;;) group.all_reduce(values).wait_host();
}

// Prints "ready" after the first operation on this memory, since setup makes that one slow. The
// last rank makes only `calls` more.
void loop_with(ddp::ProcessGroup& group, const ddp::Allocation& memory,
               std::optional<ddp::Timeout> timeout, std::optional<int> calls = std::nullopt) {
  const ddp::Buffer values{memory.data(), memory.size_bytes() / sizeof(float), ddp::DType::kFloat32,
                           group.device()};
  {
    const ddp::ScopedTimeout patience(group, kConnectTimeout);
    group.all_reduce(values).wait_host();
  }
  ready(group);
  const bool leaves = calls && group.rank() == group.world_size() - 1;
  if (!leaves) loop(group, values, timeout);
  for (int i = 0; i < *calls; ++i) group.all_reduce(values).wait_host();
}

int sum_with(ddp::ProcessGroup& group, const ddp::Allocation& memory) {
  const ddp::Buffer value{memory.data(), 1, ddp::DType::kFloat32, group.device()};
  ddp::fill(value, group.rank() + 1);
  group.all_reduce(value).wait_host();
  if (group.rank() == 0) std::printf("sum %g\n", ddp::item(value));
  return 0;
}

void send_to_one_that_stops(ddp::ProcessGroup& group) {
  std::vector<float> values(std::size_t{64} << 20, group.rank() == 0 ? 1.0F : 0.0F);
  if (group.rank() == 0) return group.send(ddp::buffer_of(values), 1).wait();
  const ddp::Work work = group.recv(ddp::buffer_of(values), 0);
  const volatile float& first = values[0];
  while (first == 0) std::this_thread::yield();
  const volatile float& middle = values[values.size() / 2];
  if (middle != 0) std::puts("too late");
  std::fflush(stdout);
  std::raise(SIGSTOP);
  work.wait();
}

void wait_for_stdin() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

void receive_from_all(ddp::ProcessGroup& group) {
  std::vector<float> values(static_cast<std::size_t>(group.world_size()));
  auto batch = group.batch();
  for (int rank = 1; rank < group.world_size(); ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    (void)group.recv(ddp::buffer_of(values).slice(place, 1), rank);
  }
  batch.end().wait();
}

// Logs in an endless loop on a detached thread.
void log_in_background() {
  std::thread([] {
    for (;;) ddp::logging::error("still here");
  }).detach();
}

void miss_fifth_step(ddp::ProcessGroup& group, const ddp::Buffer& values) {
  ddp::FlightRecorder& recorder = group.recorder();
  const ddp::ScopedLabel labelled(group, "bucket 0: layer3.*");
  for (std::uint64_t step = 1; step <= 5; ++step) {
    group.state().begin_step(step);
    if (step == 5 && group.rank() == group.world_size() - 1) wait_for_stdin();
    group.all_reduce(values).wait();
    recorder.end_step();
  }
}

// Restores the default handlers, since a sanitizer would turn the crash into an exit code.
void crash() {
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

// Work that remains after the group is destroyed, such as freeing a big model.
struct SlowEnd {
  bool is_slow = false;
  ~SlowEnd() {
    if (is_slow) std::this_thread::sleep_for(200ms);
  }
};

void fail_in_fifth_step(ddp::ProcessGroup& group, const ddp::Buffer& values,
                        const std::string& mode, SlowEnd& end) {
  for (std::uint64_t step = 1;; ++step) {
    group.state().begin_step(step);
    if (step == 5 && group.rank() == group.world_size() - 1) {
      end.is_slow = mode == "fail-slowly";
      if (mode == "crash") crash();
      if (mode == "fail-cuda") (void)ddp::cu::allocate_device(1, ddp::cuda_device(99));
      throw std::runtime_error("thrown on purpose");
    }
    group.all_reduce(values).wait();
    group.recorder().end_step();
  }
}

void wait_on_rank0(ddp::ProcessGroup& group, const ddp::OnRank0Options& options) {
  const auto wait = [&] {
    std::puts("waiting");
    std::fflush(stdout);
    wait_for_stdin();
  };
  ddp::on_rank0(group, wait, options);
}

// Makes the last rank call something else than the other ranks.
void differ(ddp::ProcessGroup& group, const std::string& how, ddp::Buffer operand) {
  (void)std::getchar();
  const bool differs = group.rank() == group.world_size() - 1;
  if (differs && how == "kind") return group.broadcast(operand, 0).wait();
  if (differs && how == "count") --operand.count;
  if (differs && how == "dtype") operand.dtype = ddp::DType::kInt32;
  group.all_reduce(operand).wait();
}

// Runs two steps and the first half of a third, whose first bucket is being reduced; then the
// caller leaves.
class UnfinishedStep {
 public:
  explicit UnfinishedStep(const std::shared_ptr<ddp::ProcessGroup>& group,
                          ddp::Timeout lateness = {})
      : values_{Values(group->device()), Values(group->device())},
        ddp_(group, parameters(), {.buckets = {.bucket_bytes_cap = 40000, .min_buckets = 2}}) {
    for (int step = 0; step < 2; ++step) {
      (void)ddp_.begin_step();
      for (const std::size_t i : {1, 0}) ddp_.mark_ready(i);
      ddp_.wait();
    }
    std::this_thread::sleep_for(lateness);
    (void)ddp_.begin_step();
    ddp_.mark_ready(1);
  }

  void finish() {
    ddp_.mark_ready(0);
    ddp_.wait();
  }

 private:
  std::vector<ddp::Parameter> parameters() {
    return {{"first", {Values::kCount}, values_[0].buffer},
            {"second", {Values::kCount}, values_[1].buffer}};
  }

  std::array<Values, 2> values_;
  ddp::DistributedDataParallel ddp_;
};

// The group and an engine of it: destroyed after main, in an order that depends on the process.
std::array<std::shared_ptr<void>, 2> left_over;

void leave_to_static_destructors(const std::shared_ptr<ddp::ProcessGroup>& group) {
  const std::size_t place = ::getpid() % 2;
  left_over[place] = group;
  left_over[1 - place] = std::make_shared<UnfinishedStep>(group);
}

[[noreturn]] void throw_on_purpose() { throw std::runtime_error("thrown on purpose"); }

void fail_in_step(const std::shared_ptr<ddp::ProcessGroup>& group) {
  const bool fails = group->rank() == group->world_size() - 1;
  UnfinishedStep step(group, fails ? 0s : 2s);
  if (fails) throw_on_purpose();
  step.finish();
}

void throw_past_every_handler() noexcept { throw_on_purpose(); }

// Destroys the groups in an order that depends on the process.
void destroy_in_some_order(std::shared_ptr<ddp::ProcessGroup> group) {
  std::vector<Values> values;
  std::array<std::shared_ptr<ddp::ProcessGroup>, 3> groups = {group, group->duplicate(),
                                                              group->split(0, -group->rank())};
  for (int i = 0; i < 3; ++i) values.emplace_back(group->device());
  group.reset();
  for (std::size_t i = 0; i < 3; ++i) all_reduce_in_flight(*groups[i], values[i].buffer);
  const auto first = static_cast<std::size_t>(::getpid()) % 3;
  const std::size_t step = ::getpid() % 2 == 0 ? 1 : 2;
  for (std::size_t i = 0; i < 3; ++i) groups[(first + i * step) % 3].reset();
}

// Returns 0 if the child got the signal.
int stop_a_child() {
  const ddp::SignalGuard signals;
  sigset_t stop;
  sigset_t before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &stop, &before);  // so that it does not come before the wait for it
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::sigsuspend(&before);
    ::_exit(signals.stop_requested() ? 0 : 1);
  }
  int status = 1;
  return ::kill(child, SIGTERM) == 0 && ::waitpid(child, &status, 0) == child ? status : 1;
}

// As programs written for PyTorch do, which read these variables themselves.
void name_place(ddp::InitOptions& options) {
  const ddp::WorkerEnv env = ddp::WorkerEnv::from_environment();
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.master = env.master;
}

// One group after the other, then one while the last one lives.
int sum_again(const ddp::InitOptions& options) {
  double sum = 0;
  std::shared_ptr<ddp::ProcessGroup> group;
  for (int round = 0; round < 6; ++round) {
    if (round < 5) group.reset();
    group = ddp::init_process_group(options);
    double one = 1;
    group->all_reduce(ddp::buffer_of(std::span(&one, 1))).wait();
    sum += one;
  }
  std::printf("sum %g\n", sum);
  return 0;
}

int run(const std::string& mode, const std::string& backend, const Patience& patience) {
  if (mode == "fork") return stop_a_child();
  if (mode == "log") {
    log_in_background();
    return 0;
  }
  SlowEnd end;
  std::optional<Values> memory;  // outlives the group, and exit() does not free it
  const bool is_nccl = backend == "nccl";
  ddp::InitOptions options{
      .backend = ddp::parse_backend(backend),
      .device = is_nccl ? ddp::DeviceChoice::kCuda : ddp::DeviceChoice::kCpu,
      .timeout = is_nccl && patience.timeout ? kConnectTimeout : patience.timeout,
      .hang_watch = patience.hang_watch};
  if (mode == "sum-placed") name_place(options);
  if (mode == "again") return sum_again(options);
  auto group = ddp::init_process_group(options);
  if (mode == "sum-allocated") return sum_with(*group, group->allocate(kRegisteredBytes));
  if (mode == "loop-large") {
    loop_with(*group, ddp::allocate_host(kLargeBytes), patience.timeout);
  }
  if (mode == "loop-allocated") {
    loop_with(*group, group->allocate(kLargeBytes), patience.timeout);
  }
  if (mode == "leave-allocated") {
    loop_with(*group, group->allocate(kLargeBytes), patience.timeout, 4);
    return 0;
  }
  const ddp::Buffer& values = memory.emplace(group->device()).buffer;
  group->all_reduce(values).wait_host();
  ready(*group);
  if (mode == "sum" || mode == "sum-placed") {
    if (group->rank() == 0) std::printf("sum %g\n", ddp::item(values.slice(0, 1)));
    return 0;
  }
  if (mode == "fail-in-step") fail_in_step(group);
  if (mode.starts_with("fail") || mode == "crash") {
    fail_in_fifth_step(*group, values, mode, end);
  }
  if (mode == "absent") miss_fifth_step(*group, values);
  if (mode == "send-stop") {
    send_to_one_that_stops(*group);
    return 0;
  }
  if (mode == "batch") {
    group->rank() == 0 ? receive_from_all(*group) : wait_for_stdin();
    return 0;
  }
  if (mode == "split") {
    if (group->rank() == group->world_size() - 1) wait_for_stdin();
    static_cast<void>(group->split(0, 0));
  }
  if (mode == "loop-part") {
    const auto part = group->split(group->rank() == 0 ? 0 : 1, group->rank());
    ready(*part);
    loop(*part, values, patience.timeout);
  }
  if (mode == "on_rank0") wait_on_rank0(*group, patience.on_rank0);
  if (mode == "late") {
    std::this_thread::sleep_for(group->rank() == 0 ? 2s : 0s);
    (void)group->all_reduce(values);
    return 0;
  }
  const bool differs = mode == "kind" || mode == "count" || mode == "dtype";
  if (differs) differ(*group, mode, values);
  if (mode == "early" && group->rank() == 0) return 0;
  if (mode == "loop" || mode == "early" || differs) {  // nccl's check comes behind the calls
    loop(*group, values, patience.timeout);
  }
  if (mode == "children") {
    destroy_in_some_order(std::move(group));
    return 0;
  }
  if (mode == "step-static") {
    leave_to_static_destructors(group);
    return 0;
  }
  std::optional<UnfinishedStep> step;
  if (mode.starts_with("step-")) {
    step.emplace(group);
  } else {
    all_reduce_in_flight(*group, values);
  }
  if (mode.ends_with("exit")) std::exit(0);
  if (mode.ends_with("throw")) throw_on_purpose();
  if (mode.ends_with("uncaught")) throw_past_every_handler();
  return 0;
}

int run_and_tell(const std::string& mode, const std::string& backend, const Patience& patience) {
  try {
    return run(mode, backend, patience);
  } catch (const std::exception& error) {
    if (mode.ends_with("aborters") && dynamic_cast<const ddp::PeerError*>(&error)) std::abort();
    ddp::record_error(error);
    std::fprintf(stderr, "%s\n", ddp::describe(error).c_str());
    return 3;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "sum";
  const std::string backend = argc > 2 ? argv[2] : "auto";
  const bool is_patient = argc > 3 && argv[3] == std::string_view("patient");
  const Patience& patience = is_patient ? kPatient : kQuick;
  if (mode != "without-main-thread") return run_and_tell(mode, backend, patience);
  std::thread([=, &patience] { std::exit(run_and_tell("sum", backend, patience)); }).detach();
  ::pthread_exit(nullptr);
}
