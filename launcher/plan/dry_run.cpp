// SPDX-License-Identifier: MIT
#include "launcher/plan/dry_run.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "launcher/plan/environment.h"

namespace ddp::launcher {
namespace {

using PlannedWorkers = std::vector<PlannedWorker>;

// Quotes a word for a shell, if it needs it.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string joined(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(quoted(word));
  return fmt::format("{}", fmt::join(texts, " "));
}

// "NAME='a value'".
std::string assignment(const std::string& entry) {
  const std::size_t equals = entry.find('=');
  return entry.substr(0, equals + 1) + quoted(entry.substr(equals + 1));
}

bool all_have(const PlannedWorkers& workers, const std::string& entry) {
  return std::ranges::all_of(workers, [&entry](const PlannedWorker& worker) {
    return std::ranges::find(worker.environment, entry) != worker.environment.end();
  });
}

std::string table(const PlannedWorkers& workers) {
  std::size_t device = std::string_view("device").size();
  std::size_t cpus = std::string_view("CPUs").size();
  for (const PlannedWorker& worker : workers) {
    device = std::max(device, worker.device.size());
    cpus = std::max(cpus, worker.cpus.size());
  }
  std::string text =
      fmt::format("rank  local rank  {:<{}}  {:<{}}  command\n", "device", device, "CPUs", cpus);
  for (const PlannedWorker& worker : workers) {
    text += fmt::format("{:>4}  {:>10}  {:<{}}  {:<{}}  {}\n", worker.rank, worker.local_rank,
                        worker.device, device, worker.cpus, cpus, joined(worker.argv));
  }
  return text;
}

std::string common_environment(const PlannedWorkers& workers) {
  std::string text;
  for (const std::string& entry : workers.front().environment) {
    if (all_have(workers, entry)) text += "  " + assignment(entry) + "\n";
  }
  return text;
}

std::string own_environment(const PlannedWorkers& workers, const PlannedWorker& worker) {
  std::string text = fmt::format("  rank {}:", worker.rank);
  for (const std::string& entry : worker.environment) {
    if (!all_have(workers, entry)) text += " " + assignment(entry);
  }
  return text + "\n";
}

// `name` ends with "=".
void describe_value(EnvironmentBlock& block, const std::string& name, const char* words) {
  for (std::string& entry : block) {
    if (entry.starts_with(name)) entry = name + words;
  }
}

}  // namespace

std::vector<PlannedWorker> preview(const WorkerPlan& plan, JobLayout layout) {
  if (layout.run_id.empty()) layout.run_id = "(a random one)";
  layout.launch_id = "(a random one)";
  // With empty paths these variables would be missing.
  const Attempt attempt{.folder = {"?"}, .worker_slots = "?"};
  PlannedWorkers workers;
  for (int local_rank = 0; local_rank < layout.local_world_size; ++local_rank) {
    PlannedWorker& worker = workers.emplace_back();
    worker.rank = layout.first_rank + local_rank;
    worker.local_rank = local_rank;
    const Placement placement = placement_of(plan, local_rank);
    worker.device = placement.device;
    if (!placement.cpus.empty()) worker.cpus = to_string(placement.cpus);
    worker.argv = command_of(plan.command, local_rank).argv;
    worker.environment = contract_entries(plan, layout, attempt, local_rank);
    std::ranges::replace(worker.environment, "MASTER_PORT=0", "MASTER_PORT=(a free one)");
    describe_value(worker.environment, "TORCHELASTIC_ERROR_FILE=", "(a file of its own)");
    describe_value(worker.environment, "DDP_CRASH_FILE=", "(a file of its own)");
    describe_value(worker.environment, "DDP_EVENTS_FILE=", "(a file of its own)");
    describe_value(worker.environment, "DDP_WORKER_SLOTS=", "(memory of the launcher)");
  }
  return workers;
}

std::string format_dry_run(const PlannedWorkers& workers) {
  std::string text = table(workers) + "\nenvironment of every worker:\n";
  text += common_environment(workers);
  if (workers.size() == 1) return text;
  text += "\nenvironment of each:\n";
  for (const PlannedWorker& worker : workers) text += own_environment(workers, worker);
  return text;
}

}  // namespace ddp::launcher
