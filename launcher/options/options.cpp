// SPDX-License-Identifier: MIT
#include "launcher/options/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ddp/base/net/resolve.h"
#include "ddp/base/rank_list.h"
#include "launcher/launch_error.h"
#include "launcher/options/draft.h"
#include "launcher/options/fellow_launchers.h"
#include "launcher/options/flags.h"
#include "launcher/options/given_flags.h"

namespace ddp::launcher {
namespace {

constexpr std::uint16_t kStaticPort = 29500;  // torchrun's default ports
constexpr std::uint16_t kC10dPort = 29400;

bool asks_for_nothing(const GivenFlag& given) {
  if (!given.flag.takes_value()) return !to_bool(given.value);
  return given.flag.empty_value != nullptr && given.value.text == given.flag.empty_value;
}

void apply(const GivenFlag& given, Draft& draft) {
  const Flag& flag = given.flag;
  if (asks_for_nothing(given)) return;
  if (flag.set != nullptr) return flag.set(draft, given.value);
  throw LaunchError(fmt::format("{} is not supported: {}", given.value.source, flag.help));
}

void settle_nodes(Draft& draft, const WorkerEnv::Lookup& environment) {
  NodeOptions& nodes = draft.options.nodes;
  nodes.count = draft.node_count.value_or(1);
  if (draft.standalone) {
    if (nodes.count > 1) {
      throw LaunchError(fmt::format("--standalone is for one node (--nnodes={})", nodes.count));
    }
    nodes = NodeOptions();
    return;
  }
  const bool is_static = nodes.backend == NodeOptions::Backend::kStatic;
  if (const auto fellows = fellow_launchers(draft.node_count, environment)) {
    join_fellows(*fellows, nodes);
    if (draft.node_count) nodes.count_source.clear();
  } else if (nodes.count > 1) {
    nodes.endpoint.port = is_static ? kStaticPort : kC10dPort;
  }
  const Address& given = draft.rendezvous.host.empty() ? draft.master : draft.rendezvous;
  // One node need not look a name up, which may not be known yet, or lead elsewhere.
  const bool meets_there = nodes.count > 1 || is_in_digits(given.host);
  if (!given.host.empty() && meets_there) {
    nodes.endpoint.host = given.host;
    nodes.doubt.clear();
  }
  if (given.port) nodes.endpoint.port = *given.port;
}

void check_nodes(const NodeOptions& nodes) {
  if (nodes.rank.value_or(0) >= nodes.count) {
    throw LaunchError(fmt::format("--node_rank={}: with {} (--nnodes), the largest is {}",
                                  *nodes.rank, counted(nodes.count, "node"), nodes.count - 1));
  }
  if (nodes.count == 1) return;
  if (nodes.endpoint.host.empty()) {
    throw LaunchError(
        fmt::format("nothing tells the {} nodes where they can meet; give an address of node 0 as "
                    "--master_addr or --rdzv_endpoint",
                    nodes.count));
  }
  if (!nodes.doubt.empty()) {
    throw LaunchError(nodes.doubt +
                      ": give the host of task 0, where the launchers can meet, as --master_addr "
                      "or MASTER_ADDR");
  }
  if (nodes.endpoint.port == 0) {
    throw LaunchError(
        fmt::format("--nnodes={}: other nodes cannot know a port that is picked "
                    "(0); give one as --master_port or --rdzv_endpoint",
                    nodes.count));
  }
}

void settle_program(Draft& draft, std::vector<std::string> command) {
  ProgramOptions& program = draft.options.program;
  if (draft.module && draft.no_python) {
    throw LaunchError("--module and --no_python: a module is run by Python; give only one of them");
  }
  if (draft.module) program.kind = ProgramOptions::Kind::kModule;
  if (draft.no_python) program.kind = ProgramOptions::Kind::kNative;
  program.command = std::move(command);
  if (program.command.empty()) {
    throw LaunchError("no PROGRAM given; usage: ddp-launch [flags] [--] PROGRAM [args...]");
  }
}

void settle_workers(Draft& draft) {
  const auto& gpus = draft.options.placement.gpus;
  if (draft.workers) {
    draft.options.workers = *draft.workers;
  } else if (gpus) {
    draft.options.workers = {WorkerRequest::Kind::kNumber, static_cast<int>(gpus->size())};
  }
}

bool only_prints(Options::Action action) {
  return action == Options::Action::kPrintHelp || action == Options::Action::kPrintVersion;
}

}  // namespace

bool Show::shows_stdout(int rank) const {
  return kind == Kind::kDefault ? rank == 0 : shows_stderr(rank);
}

bool Show::shows_stderr(int rank) const {
  return kind != Kind::kListed || std::ranges::find(ranks, rank) != ranks.end();
}

bool StreamSelection::has(Streams stream, int local_rank) const {
  const auto listed = by_local_rank.find(local_rank);
  return ((listed == by_local_rank.end() ? everybody : listed->second) & stream) != 0;
}

Options parse_options(std::span<const std::string> args, const WorkerEnv::Lookup& environment) {
  CommandLine line = cut_at_program(args);
  Draft draft;
  for (const GivenFlag& given : given_flags(line.flags, environment)) apply(given, draft);
  if (const char* python = environment("PYTHON_EXEC"); python != nullptr && *python != '\0') {
    draft.options.program.python = python;
  }
  if (!only_prints(draft.options.action)) {
    settle_workers(draft);
    settle_nodes(draft, environment);
    check_nodes(draft.options.nodes);
    settle_program(draft, std::move(line.command));
  }
  return std::move(draft.options);
}

}  // namespace ddp::launcher
