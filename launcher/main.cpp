// SPDX-License-Identifier: MIT
//
// ddp-launch: see help_text(). Everything is checked before anything is started.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/store/tcp_server.h"
#include "launcher/agent.h"
#include "launcher/command.h"
#include "launcher/console.h"
#include "launcher/cpu_count.h"
#include "launcher/dry_run.h"
#include "launcher/given_flags.h"
#include "launcher/launch_error.h"
#include "launcher/not_yet.h"
#include "launcher/options.h"
#include "launcher/signals.h"
#include "launcher/worker_count.h"
#include "launcher/worker_port.h"

namespace ddp::launcher {
namespace {

constexpr const char* kSharingRemark =
    "workers may share GPUs (--oversubscribe): fit to check results, not to measure speed";

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

EnvironmentBlock own_environment() {
  EnvironmentBlock block;
  for (char** entry = environ; *entry != nullptr; ++entry) block.emplace_back(*entry);
  return block;
}

// If stdin, stdout or stderr is closed, a pipe or socket of ours would get its number.
void occupy_standard_descriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

std::string random_run_id() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits))) {
    throw SystemError("cannot draw a run id", errno);
  }
  return fmt::format("{:016x}", bits);
}

std::string describe_job(const WorkerPlan& plan, const JobContext& job) {
  return fmt::format("{} worker{} of {}, store at {}, run id {}, OMP_NUM_THREADS={} unless set",
                     job.world_size, job.world_size == 1 ? "" : "s", plan.command.path,
                     to_string(job.store), job.run_id, omp_threads_per_worker(job));
}

void check_shown_ranks(const Show& show, int world_size) {
  for (const int rank : show.ranks) {
    if (rank < world_size) continue;
    throw LaunchError(fmt::format("--show: there is no rank {} among {} worker{}", rank, world_size,
                                  world_size == 1 ? "" : "s"));
  }
}

WorkerPlan plan_workers(const Options& options) {
  WorkerPlan plan;
  plan.command =
      resolve_command(options.program, environment_variable("PATH").value_or("/bin:/usr/bin"));
  plan.environment = own_environment();
  plan.show = options.logs.show;
  plan.failure_grace = options.grace.value_or(plan.failure_grace);
  plan.interrupt_grace = options.grace.value_or(plan.interrupt_grace);
  plan.verbose = options.verbose;
  return plan;
}

// What is decided before anything starts.
struct Plan {
  WorkerPlan workers;
  JobContext job;
  std::vector<std::string> remarks;
};

// Until the nodes have met, all of them are taken to have as many workers as this one.
JobContext plan_job(const Options& options, int workers, int cpus) {
  JobContext job;
  job.usable_cpus = cpus;
  job.node_rank = options.nodes.rank.value_or(0);
  job.node_count = options.nodes.count;
  job.local_world_size = workers;
  job.first_rank = job.node_rank * workers;
  job.world_size = job.node_count * workers;
  job.role = options.role;
  job.store = options.nodes.endpoint;
  job.agent_hosts_store = options.store_host == StoreHost::kAgent;
  job.run_id = options.nodes.run_id.value_or("");
  job.rank0_on_terminal = options.logs.show.shows_stdout(0) && ::isatty(STDOUT_FILENO) == 1;
  job.oversubscribe = options.placement.oversubscribe;
  return job;
}

Plan make_plan(const Options& options) {
  refuse_unbuilt(options);
  Plan plan{plan_workers(options), {}, {}};
  const int cpus = usable_cpus();
  const WorkerCount count = decide_worker_count(
      options.workers, {find_gpus, environment_variable("CUDA_VISIBLE_DEVICES"), cpus});
  plan.job = plan_job(options, count.workers, cpus);
  check_shown_ranks(options.logs.show, plan.job.world_size);
  if (!count.remark.empty()) plan.remarks.push_back(count.remark);
  if (options.placement.oversubscribe) plan.remarks.emplace_back(kSharingRemark);
  return plan;
}

int run_job(const Options& options) {
  auto [workers, job, remarks] = make_plan(options);
  if (job.run_id.empty()) job.run_id = random_run_id();

  SignalReader signals;  // before the server's thread, which inherits the mask
  std::optional<TcpServer> server;
  if (job.agent_hosts_store) {
    job.store = server.emplace(job.store).endpoint();
  } else {
    job.store = choose_worker_port(job.store);
  }
  Console console(STDOUT_FILENO, STDERR_FILENO);
  for (const std::string& remark : remarks) console.say(remark);
  if (options.verbose) console.say(describe_job(workers, job));
  return Agent(std::move(workers), std::move(job), signals, console).run();
}

int print(const std::string& text) {
  return ::write(STDOUT_FILENO, text.data(), text.size()) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int show_plan(const Options& options) {
  const Plan plan = make_plan(options);
  std::string text;
  for (const std::string& remark : plan.remarks) text += "remark: " + remark + "\n";
  return print(text + format_dry_run(preview(plan.workers, plan.job)));
}

int run(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const Options options = parse_options(args, ::getenv);
  switch (options.action) {
    case Options::Action::kPrintHelp:
      return print(help_text());
    case Options::Action::kPrintVersion:
      return print("ddp-launch " DDP_VERSION "\n");
    case Options::Action::kDryRun:
      return show_plan(options);
    case Options::Action::kRun:
      break;
  }
  return run_job(options);
}

int refuse(const std::exception& error, int exit_code) {
  const std::string line = "ddp-launch: " + describe(error) + "\n";
  // Nobody is left to tell if this fails.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  return exit_code;
}

}  // namespace
}  // namespace ddp::launcher

int main(int argc, char** argv) {
  ddp::launcher::occupy_standard_descriptors();
  try {
    return ddp::launcher::run(argc, argv);
  } catch (const ddp::launcher::LaunchError& error) {
    return ddp::launcher::refuse(error, error.exit_code());
  } catch (const std::exception& error) {
    return ddp::launcher::refuse(error, 2);
  }
}
