// SPDX-License-Identifier: MIT
#include "launcher/prove/options.h"

#include <cstddef>
#include <cstdlib>

#include "ddp/base/number_in.h"
#include "launcher/launch_error.h"
#include "launcher/options/flag_value.h"
#include "launcher/options/flags.h"
#include "launcher/options/options.h"

namespace ddp::prove {
namespace {

using launcher::FlagValue;
using launcher::LaunchError;

double to_tolerance(const FlagValue& value) {
  const auto tolerance = number_in<double>(value.text);
  if (!tolerance || !(*tolerance > 0 && *tolerance < 1)) {
    launcher::refuse_value(value, "a number between 0 and 1");
  }
  return *tolerance;
}

std::vector<int> to_numbers_of_ranks(const FlagValue& value) {
  std::vector<int> result;
  for (const std::string& piece : launcher::split(value.text, ',')) {
    result.push_back(number_in<int>(piece).value_or(0));
    if (result.back() < 1) launcher::refuse_value(value, "numbers of ranks such as 1,2,4");
  }
  if (result.size() < 2) launcher::refuse_value(value, "at least two numbers, such as 1,2");
  return result;
}

void set(Options& options, const FlagValue& value) {
  if (value.source == "--steps") {
    options.steps = launcher::to_count(value, 1);
  } else if (value.source == "--tolerance") {
    options.tolerance = to_tolerance(value);
  } else {
    throw LaunchError("unknown flag '" + value.source +
                      "'; ddp-launch's flags come after the numbers of ranks (see --help)");
  }
}

// The flag at args[i], which moves i to its last argument.
FlagValue take_flag(const std::vector<std::string>& args, std::size_t& i) {
  const std::size_t equals = args[i].find('=');
  if (equals != std::string::npos) return {args[i].substr(0, equals), args[i].substr(equals + 1)};
  const std::string& name = args[i];
  if (++i == args.size()) throw LaunchError(name + " needs a value (see --help)");
  return {name, args[i]};
}

// An error about ddp-launch's flags, among which may be ours.
std::string explain(const LaunchError& error) {
  const auto* unknown = dynamic_cast<const launcher::UnknownFlag*>(&error);
  if (unknown != nullptr && (unknown->name() == "steps" || unknown->name() == "tolerance")) {
    return "'--" + unknown->name() +
           "' is a flag of ddp-prove: give it before the numbers of ranks (see --help)";
  }
  return std::string("ddp-launch's flags: ") + error.what();
}

launcher::Options parse_launch(const std::vector<std::string>& arguments) {
  try {
    return launcher::parse_options(arguments, ::getenv);
  } catch (const LaunchError& error) {
    throw LaunchError(explain(error), error.exit_code());
  }
}

// Each run must have its number of ranks, all of them here, and end before it is compared.
void check_launch(int ranks, const Options& options) {
  const launcher::Options launch = parse_launch(launch_arguments(ranks, options));
  if (launch.action != launcher::Options::Action::kRun || launch.detach) {
    throw LaunchError(
        "leave out ddp-launch's --help, --version, --dry_run and --detach: runs are waited for");
  }
  if (launch.max_restarts > 0) {
    throw LaunchError("leave out ddp-launch's --max_restarts: a run must not have steps twice");
  }
  if (launch.nodes.count > 1) {
    throw LaunchError("leave out --nnodes, mpirun and srun: all ranks run on this node");
  }
  using Kind = launcher::WorkerRequest::Kind;
  if (launch.workers.kind != Kind::kNumber || launch.workers.number != ranks) {
    throw LaunchError("leave out ddp-launch's -n: it gets each number in RANKS");
  }
}

}  // namespace

std::vector<std::string> launch_arguments(int ranks, const Options& options) {
  std::vector<std::string> arguments = {"-n", std::to_string(ranks)};
  arguments.insert(arguments.end(), options.command.begin(), options.command.end());
  return arguments;
}

Options parse_options(const std::vector<std::string>& args) {
  Options options;
  std::size_t i = 0;
  for (; i < args.size() && args[i].starts_with('-'); ++i) {
    options.help = options.help || args[i] == "--help" || args[i] == "-h";
    if (options.help) return options;
    set(options, take_flag(args, i));
  }
  if (i == args.size()) throw LaunchError("no numbers of ranks, such as 1,2,4 (see --help)");
  options.ranks = to_numbers_of_ranks({"RANKS", args[i]});
  options.command.assign(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
  if (options.command.empty()) throw LaunchError("no PROGRAM (see --help)");
  for (const int ranks : options.ranks) check_launch(ranks, options);
  return options;
}

std::string help_text() {
  return R"(Usage: ddp-prove [flags] RANKS [ddp-launch's flags] PROGRAM [args…]

Tests whether PROGRAM trains the same model with any number of ranks. Runs it by ddp-launch with
each number in RANKS, ends it after a few steps of each DistributedDataParallel in it, and compares
parameters and gradients with those of the first number.

  ddp-prove 1,2,4 ./train --global-batch-size 64

PROGRAM must keep the global batch whatever the number of ranks. What it prints to stdout is left
out. Random numbers that depend on the rank (dropout, augmentation), and batch norm over a rank's
own batch, make a difference and are reported as one.

  --steps N      steps to compare, of each DistributedDataParallel (3)
  --tolerance X  largest relative difference of a parameter or gradient (0.001)
  -h, --help     this text

Exit code: 0 if they are the same, 1 if not, 2 if the command line is wrong or too few steps could
be compared; if a run fails, that of ddp-launch, with 2 in place of 1.
)";
}

}  // namespace ddp::prove
