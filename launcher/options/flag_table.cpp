// SPDX-License-Identifier: MIT
#include <algorithm>

#include "launcher/options/draft.h"
#include "launcher/options/flags.h"

namespace ddp::launcher {
namespace {

using enum Flag::Group;
using D = Draft;
using V = FlagValue;

constexpr Flag kFlags[] = {
    {kFrequent, "nproc_per_node", 'n', "N|auto|gpu|cpu",
     "workers to start on this node; gpu: one per visible GPU, cpu: one per CPU, auto: gpu if "
     "there is one, else cpu (default: 1, or one per GPU of --gpus)",
     [](D& d, const V& v) { d.workers = to_workers(v); }},
    {kFrequent, "gpus", '\0', "2,7",
     "GPUs to use, by index in PCI order or by UUID: the first is for rank 0, and so on",
     [](D& d, const V& v) { d.options.placement.gpus = to_gpus(v); }},
    {kFrequent, "show", '\0', "0|all|1,3",
     "ranks whose output is shown (default: stdout of rank 0, stderr of all)",
     [](D& d, const V& v) { d.options.logs.show = to_show(v); }},
    {kFrequent, "log_dir", '\0', "DIR", "keep each rank's whole output in files under DIR",
     [](D& d, const V& v) { d.options.logs.directory = to_text(v, "a folder"); }},
    {kFrequent, "max_restarts", '\0', "K", "start the job again after a failure, up to K times",
     [](D& d, const V& v) { d.options.max_restarts = to_count(v, 0); }},
    {kFrequent, "nnodes", '\0', "N", "machines that take part (default: 1)",
     [](D& d, const V& v) { d.node_count = to_node_count(v); }},
    {kFrequent, "node_rank", '\0', "R",
     "number of this node, 0 to N-1; needed with several nodes, unless something else "
     "numbers them: --rdzv_backend c10d, mpirun or srun",
     [](D& d, const V& v) { d.options.nodes.rank = to_count(v, 0); }},
    {kFrequent, "master_addr", '\0', "ADDR",
     "address of node 0, where all nodes meet (default: 127.0.0.1)",
     [](D& d, const V& v) { d.master.host = to_host(v); }},
    {kFrequent, "master_port", '\0', "PORT",
     "port of node 0 (default: a free one; with several nodes 29500)",
     [](D& d, const V& v) { d.master.port = to_port(v); }},
    {kFrequent, "dry_run", '\0', nullptr,
     "print ranks, devices, CPUs and environment, and start nothing",
     [](D& d, const V& v) {
       if (to_bool(v)) d.options.action = Options::Action::kDryRun;
     }},
    {kFrequent, "verbose", 'v', nullptr, "print what is started",
     [](D& d, const V& v) { d.options.verbose = to_bool(v); }},
    {kFrequent, "version", '\0', nullptr, "print the version",
     [](D& d, const V& v) {
       if (to_bool(v)) d.options.action = Options::Action::kPrintVersion;
     }},
    {kFrequent, "help", 'h', nullptr, "print this help",
     [](D& d, const V& v) {
       if (to_bool(v)) d.options.action = Options::Action::kPrintHelp;
     }},

    {kTorchrun, "standalone", '\0', nullptr,
     "run on one node with a free port and a random id, which is also the default",
     [](D& d, const V& v) { d.standalone = to_bool(v); }},
    {kTorchrun, "rdzv_backend", '\0', "static|c10d",
     "static: --node_rank numbers the nodes; c10d: numbered as they come (default: static)",
     [](D& d, const V& v) { d.options.nodes.backend = to_backend(v); }},
    {kTorchrun, "rdzv_endpoint", '\0', "HOST[:PORT]",
     "where nodes meet; the same as --master_addr and --master_port, and overrides them",
     [](D& d, const V& v) { d.rendezvous = to_address(v); }, ""},
    {kTorchrun, "rdzv_id", '\0', "ID",
     "name of the job, equal on all nodes (default: a random one)",
     [](D& d, const V& v) { d.options.nodes.run_id = to_run_id(v); }},
    {kTorchrun, "rdzv_conf", '\0', "K=V,...",
     "timeout and join_timeout mean the same as --timeout_start; others are refused",
     [](D& d, const V& v) { d.options.nodes.start_timeout = to_rendezvous_timeout(v); }, ""},
    {kTorchrun, "local_addr", '\0', "ADDR",
     "accepted, without effect: all nodes are told where node 0 is",
     [](D&, const V& v) { static_cast<void>(to_host(v)); }},
    {kTorchrun, "monitor_interval", '\0', "SECONDS",
     "accepted, without effect: the end of a worker is noticed at once",
     [](D&, const V& v) { static_cast<void>(to_seconds(v)); }},
    {kTorchrun, "role", '\0', "NAME", "ROLE_NAME of the workers (default: default)",
     [](D& d, const V& v) { d.options.role = v.text; }},
    {kTorchrun, "module", 'm', nullptr, "PROGRAM is a Python module: python3 -m PROGRAM",
     [](D& d, const V& v) { d.module = to_bool(v); }},
    {kTorchrun, "no_python", '\0', nullptr, "run PROGRAM itself, also if its name ends in .py",
     [](D& d, const V& v) { d.no_python = to_bool(v); }},
    {kTorchrun, "redirects", 'r', "0-3|0:1,1:2",
     "streams that go to files only: 1 stdout, 2 stderr, 3 both; or local rank:streams",
     [](D& d, const V& v) { d.options.logs.redirects = to_streams(v); }},
    {kTorchrun, "tee", 't', "0-3|0:1,1:2",
     "streams that also go to files; the values are those of --redirects",
     [](D& d, const V& v) { d.options.logs.tee = to_streams(v); }},
    {kTorchrun, "local_ranks_filter", '\0', "0,1", "local ranks whose output is shown",
     [](D& d, const V& v) { d.options.logs.local_ranks_filter = to_ranks(v); }, ""},
    {kTorchrun, "shutdown_timeout", '\0', "SECONDS",
     "the same as --grace, also for those who still run after a failure",
     [](D& d, const V& v) { d.options.grace = d.options.failure_grace = to_seconds(v); }},
    {kTorchrun, "numa_binding", '\0', "node", "the same as --bind numa",
     [](D& d, const V& v) {
       if (v.text != "node") refuse_value(v, "node (other ways to bind are --bind core|numa)");
       d.options.placement.binding = PlacementOptions::Binding::kNuma;
     }},

    {kOwn, "grace", '\0', "SECONDS",
     "time that workers have to end when asked to, before SIGKILL (default: 30; 3 after Ctrl-C)",
     [](D& d, const V& v) { d.options.grace = to_seconds(v); }},
    {kOwn, "detach", '\0', nullptr,
     "continue in the background, in a new session, with the output in a file",
     [](D& d, const V& v) { d.options.detach = to_bool(v); }},
    {kOwn, "bind", '\0', "none|core|numa",
     "keep each worker on CPUs of its own, or on those next to its GPU (default: none)",
     [](D& d, const V& v) { d.options.placement.binding = to_binding(v); }},
    {kOwn, "oversubscribe", '\0', nullptr,
     "let workers share GPUs, to check results, not speed (sets NCCL_HOSTID and others)",
     [](D& d, const V& v) { d.options.placement.oversubscribe = to_bool(v); }},
    {kOwn, "store", '\0', "agent|worker",
     "who listens on MASTER_PORT: ddp-launch, or rank 0 (PyTorch 1.x, programs that bind it "
     "themselves) (default: agent)",
     [](D& d, const V& v) { d.options.store_host = to_store_host(v); }},
    {kOwn, "timeout_start", '\0', "SECONDS", "how long to wait for the other nodes (default: 600)",
     [](D& d, const V& v) { d.options.nodes.start_timeout = to_seconds(v); }},
    {kOwn, "pass_local_rank", '\0', nullptr,
     "give PROGRAM --local-rank=N as its first argument, as torch.distributed.launch does",
     [](D& d, const V& v) { d.options.program.pass_local_rank = to_bool(v); }},

    {kRefused, "run_path", '\0', nullptr, "a .py PROGRAM runs under python3 without a flag"},
    {kRefused, "virtual_local_rank", '\0', nullptr,
     "each worker sees all GPUs and takes the one of its LOCAL_RANK"},
    {kRefused, "start_method", '\0', "spawn", "workers are programs, which are always spawned",
     nullptr, "spawn"},
    {kRefused, "event_log_handler", '\0', "null", "events are not logged; see --verbose", nullptr,
     "null"},
    {kRefused, "logs_specs", '\0', "NAME",
     "there are no plugins; see --log_dir, --redirects, --tee"},
    {kRefused, "log_line_prefix_template", '\0', "TEXT", "lines begin with 'rank N| '", nullptr,
     ""},
    {kRefused, "duplicate_stdout_filters", '\0', "TEXT", "search the files under --log_dir",
     nullptr, ""},
    {kRefused, "duplicate_stderr_filters", '\0', "TEXT", "search the files under --log_dir",
     nullptr, ""},
    {kRefused, "signals_to_handle", '\0', "LIST",
     "SIGTERM, SIGINT, SIGHUP and SIGQUIT stop the job, unless they were ignored when it began "
     "(nohup)",
     nullptr, "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
    {kRefused, "print_completion", '\0', "SHELL", "there is no completion; see --help"},
};

static_assert(std::ranges::all_of(kFlags, [](const Flag& flag) {
  return (flag.set == nullptr) == (flag.group == kRefused);
}));

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

}  // namespace ddp::launcher
