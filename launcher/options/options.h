// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/endpoint.h"
#include "ddp/base/time.h"
#include "ddp/base/worker_env.h"

namespace ddp::launcher {

// How many workers the user asked for.
struct WorkerRequest {
  enum class Kind { kNumber, kAuto, kGpu, kCpu };
  Kind kind = Kind::kNumber;
  int number = 1;  // of kNumber
};

// Whose output reaches the console.
struct Show {
  enum class Kind { kDefault, kAll, kListed };
  Kind kind = Kind::kDefault;  // kDefault: stdout of rank 0, stderr of every rank
  std::vector<int> ranks;      // of kListed

  [[nodiscard]] bool shows_stdout(int rank) const;
  [[nodiscard]] bool shows_stderr(int rank) const;
};

// Streams of local ranks, as torchrun's --redirects and --tee name them.
struct StreamSelection {
  enum Streams : unsigned { kNone = 0, kStdout = 1, kStderr = 2, kBoth = 3 };
  unsigned everybody = kNone;             // for ranks that the map does not list
  std::map<int, unsigned> by_local_rank;  // if not empty, everybody is kNone

  [[nodiscard]] bool has(Streams stream, int local_rank) const;
};

// Where the workers' output goes.
struct LogOptions {
  Show show;
  std::optional<std::string> directory;                // of the log files; nullopt: no files
  StreamSelection redirects;                           // to files only
  StreamSelection tee;                                 // to files and the console
  std::optional<std::vector<int>> local_ranks_filter;  // other ranks are not shown
};

// Which machines take part and where they meet.
struct NodeOptions {
  enum class Backend {
    kStatic,  // nodes are numbered by --node_rank
    kC10d,    // nodes are numbered in the order of arrival
  };
  int count = 1;
  std::string count_source = {};  // for messages: who counted the nodes; empty: --nnodes
  std::optional<int> rank;        // nullopt: not given
  Backend backend = Backend::kStatic;
  Endpoint endpoint{"127.0.0.1", 0};  // of the store; port 0 (one node only): a free one
  std::string doubt;                  // why that may not be node 0's host; empty: it is
  std::optional<std::string> run_id;  // nullopt: a random one
  Timeout start_timeout{600'000};     // to wait for the other nodes
  bool on_one_host = false;  // all launchers are on this host, so they may meet on loopback
};

// What the workers run on.
struct PlacementOptions {
  enum class Binding { kNone, kCore, kNuma };
  std::optional<std::vector<std::string>> gpus;  // indices in PCI order, or UUIDs; in rank order
  Binding binding = Binding::kNone;
  bool oversubscribe = false;  // workers may share GPUs
};

struct ProgramOptions {
  enum class Kind {
    kAny,     // a .py file under python3, anything else by itself
    kNative,  // by itself
    kModule,  // a Python module
  };
  std::vector<std::string> command;  // PROGRAM and its arguments
  Kind kind = Kind::kAny;
  std::string python = "python3";  // what runs Python; PYTHON_EXEC
  bool pass_local_rank = false;    // as --local-rank=N before the arguments
};

enum class StoreHost { kAgent, kWorker };

struct Options {
  enum class Action { kRun, kDryRun, kPrintHelp, kPrintVersion };
  Action action = Action::kRun;
  WorkerRequest workers;
  ProgramOptions program;
  NodeOptions nodes;
  PlacementOptions placement;
  LogOptions logs;
  StoreHost store_host = StoreHost::kAgent;
  std::string role = "default";
  int max_restarts = 0;
  std::optional<Timeout> grace;          // between SIGTERM and SIGKILL
  std::optional<Timeout> failure_grace;  // the same after a failure
  bool detach = false;
  bool verbose = false;
};

// `args` is argv without argv[0]. A flag NAME that is not given takes its value from the
// environment variable PET_NAME, if that is nonempty. PYTHON_EXEC is read, too. Launchers that
// mpirun or srun started together are the nodes of one job, unless flags say otherwise
// (fellow_launchers.h). Throws LaunchError naming flag and value.
[[nodiscard]] Options parse_options(std::span<const std::string> args,
                                    const WorkerEnv::Lookup& environment);

}  // namespace ddp::launcher
