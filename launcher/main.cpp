// SPDX-License-Identifier: MIT
//
// ddp-launch: see help_text(). Everything is checked before anything is started.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/printable.h"
#include "ddp/base/system/host_name.h"
#include "ddp/base/system/standard_descriptors.h"
#include "ddp/base/system/write_all.h"
#include "launcher/launch_error.h"
#include "launcher/nodes/farewell.h"
#include "launcher/nodes/job_site.h"
#include "launcher/nodes/node.h"
#include "launcher/nodes/other_nodes.h"
#include "launcher/options/given_flags.h"
#include "launcher/options/options.h"
#include "launcher/output/console.h"
#include "launcher/output/log_route.h"
#include "launcher/plan/dry_run.h"
#include "launcher/plan/job_plan.h"
#include "launcher/processes/detach.h"
#include "launcher/processes/guardian.h"
#include "launcher/processes/signals.h"
#include "launcher/run/agent.h"
#include "launcher/run/private_folder.h"
#include "launcher/run/run_folder.h"
#include "launcher/verdict/failure.h"

namespace ddp::launcher {
namespace {

constexpr int kRefusedExitCode = 2;

int run_at_site(const WorkerPlan& plan, const JobSite& site, const std::string& private_folder,
                SignalReader& signals, Console& console) {
  check_shown_ranks(plan.logs, site.layout);
  if (plan.verbose) console.say(describe_job(plan, site.layout));
  RunFolder files(plan.logs, site.layout, private_folder);
  if (!files.remark().empty()) console.say(files.remark());
  console.set_log_folder(files.log_root());
  return Agent({.plan = plan,
                .layout = site.layout,
                .files = files,
                .signals = signals,
                .console = console,
                .nodes = *site.nodes})
      .run();
}

// Tells the other nodes at once.
void give_up(OtherNodes& nodes, const std::string& self, const std::exception& error) {
  const auto* refusal = dynamic_cast<const LaunchError*>(&error);
  const int exit_code = refusal == nullptr ? kRefusedExitCode : refusal->exit_code();
  nodes.give_up(to_json(NodeFailure{self + ": " + describe(error), exit_code}));
}

// What has been said must not be lost if this fails.
JobSite meet_other_nodes(const Options& options, const JobPlan& plan, SignalReader& signals,
                         Console& console) try {
  return open_site(options.nodes, plan.workers, plan.layout, signals, console);
} catch (...) {
  console.flush();
  throw;
}

int run_agent(const Options& options, const JobPlan& plan, const std::string& private_folder,
              SignalReader& signals) {
  Console console(STDOUT_FILENO, STDERR_FILENO);
  for (const std::string& remark : plan.remarks) console.say(remark);
  const JobSite site = meet_other_nodes(options, plan, signals, console);
  const std::string self = describe_node(site.layout.node_rank, host_name());
  try {
    return run_at_site(plan.workers, site, private_folder, signals, console);
  } catch (const std::exception& error) {
    console.flush();
    give_up(*site.nodes, self, error);
    throw;
  }
}

// True if the launchers meet in the store of another one.
bool meets_elsewhere(const NodeOptions& nodes) { return nodes.count > 1 && nodes.rank != 0; }

NodePlan plan_to_tell(const NodeOptions& nodes) {
  return {.rank = nodes.rank, .store = nodes.endpoint, .run_id = nodes.run_id.value_or("")};
}

// Other nodes that wait for this one hear why it does not come.
JobPlan plan_or_tell(const Options& options) try {
  return plan_job(options);
} catch (const LaunchError& refusal) {
  if (meets_elsewhere(options.nodes)) {
    tell_refusal(plan_to_tell(options.nodes), host_name(), refusal);
  }
  throw;
}

int run_job(const Options& options, const ReportStart& on_start) {
  JobPlan plan = plan_or_tell(options);
  plan.workers.on_start = on_start;
  SignalReader signals;  // before the first thread, which inherits the mask
  std::optional<PrivateFolder> folder;
  if (!has_files(options.logs)) folder.emplace();
  const std::string path = folder ? folder->path() : "";
  if (folder && path.empty()) plan.remarks.push_back(folder->remark());
  return run_guarded(
      signals, [&] { return run_agent(options, plan, path, signals); },
      [&](pid_t agent, const std::string& death) {
        if (meets_elsewhere(options.nodes)) {
          tell_loss(plan_to_tell(options.nodes), host_name(), agent, host_name() + ": " + death);
        }
      });
}

int print(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == 0) return EXIT_SUCCESS;
  throw LaunchError("cannot write to stdout: " + error_text(error), EXIT_FAILURE);
}

int show_plan(const Options& options) {
  const JobPlan plan = plan_job(options);
  check_shown_ranks(options.logs, plan.layout);
  std::string text;
  for (const std::string& remark : plan.remarks) text += "remark: " + remark + "\n";
  return print(text + format_dry_run(preview(plan.workers, plan.layout)));
}

int run(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const Options options = parse_options(args, ::getenv);
  if (options.action == Options::Action::kPrintHelp) return print(help_text());
  if (options.action == Options::Action::kPrintVersion)
    return print("ddp-launch " DDP_VERSION "\n");
  if (options.action == Options::Action::kDryRun) return show_plan(options);
  if (!options.detach) return run_job(options, {});
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  if (error) {
    throw LaunchError(fmt::format("--detach: no log file can be made in the working directory: {}",
                                  error_text(error.value())));
  }
  return run_detached(folder,
                      [&](const ReportStart& on_start) { return run_job(options, on_start); });
}

int refuse(const std::exception& error, int exit_code) {
  // Errors are ignored, since there is nobody to report them to.
  static_cast<void>(write_all(STDERR_FILENO, "ddp-launch: " + printable(describe(error)) + "\n"));
  return exit_code;
}

}  // namespace
}  // namespace ddp::launcher

int main(int argc, char** argv) {
  ddp::occupy_standard_descriptors();
  try {
    return ddp::launcher::run(argc, argv);
  } catch (const ddp::launcher::LaunchError& error) {
    return ddp::launcher::refuse(error, error.exit_code());
  } catch (const std::exception& error) {
    return ddp::launcher::refuse(error, ddp::launcher::kRefusedExitCode);
  }
}
