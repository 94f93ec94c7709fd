// SPDX-License-Identifier: MIT
#include "launcher/flags.h"

namespace ddp::launcher {
namespace {

using enum Flag::Group;

constexpr Flag kFlags[] = {
    {kFrequent, "nproc_per_node", 'n', "N|auto|gpu|cpu",
     "workers to start on this node; gpu: one per visible GPU, cpu: one per CPU, auto: gpu if "
     "there is one, else cpu (default: 1, or one per GPU of --gpus)"},
    {kFrequent, "gpus", '\0', "2,7",
     "GPUs to use, by index in PCI order or by UUID: the first is for rank 0, and so on"},
    {kFrequent, "show", '\0', "0|all|1,3",
     "ranks whose output is shown (default: stdout of rank 0, stderr of all)"},
    {kFrequent, "log_dir", '\0', "DIR", "keep each rank's whole output in files under DIR"},
    {kFrequent, "max_restarts", '\0', "K", "start the job again after a failure, up to K times"},
    {kFrequent, "nnodes", '\0', "N", "machines that take part (default: 1)"},
    {kFrequent, "node_rank", '\0', "R",
     "which of them this is, 0 to N-1; needed if there are several, unless something else "
     "numbers them: --rdzv_backend c10d, mpirun or srun"},
    {kFrequent, "master_addr", '\0', "ADDR",
     "address of node 0, where all meet (default: 127.0.0.1)"},
    {kFrequent, "master_port", '\0', "PORT",
     "and its port (default: a free one; with several nodes 29500)"},
    {kFrequent, "dry_run", '\0', nullptr,
     "print ranks, devices, CPUs and environment; start nothing"},
    {kFrequent, "verbose", 'v', nullptr, "say what is started"},
    {kFrequent, "version", '\0', nullptr, "print the version"},
    {kFrequent, "help", 'h', nullptr, "print this help"},

    {kTorchrun, "standalone", '\0', nullptr,
     "one node, a free port, an id of its own: what happens without flags, too"},
    {kTorchrun, "rdzv_backend", '\0', "static|c10d",
     "static: nodes are numbered by --node_rank; c10d: as they come (default: static)"},
    {kTorchrun, "rdzv_endpoint", '\0', "HOST[:PORT]",
     "where nodes meet; the same as --master_addr and --master_port, and comes before them"},
    {kTorchrun, "rdzv_id", '\0', "ID",
     "name of the job, equal on all nodes (default: a random one)"},
    {kTorchrun, "rdzv_conf", '\0', "K=V,...",
     "timeout and join_timeout are taken, as --timeout_start"},
    {kTorchrun, "local_addr", '\0', "ADDR",
     "taken, and needless: all nodes are told where node 0 is"},
    {kTorchrun, "monitor_interval", '\0', "SECONDS",
     "taken, and needless: the end of a worker is noticed at once"},
    {kTorchrun, "role", '\0', "NAME", "ROLE_NAME of the workers (default: default)"},
    {kTorchrun, "module", 'm', nullptr, "PROGRAM is a Python module: python3 -m PROGRAM"},
    {kTorchrun, "no_python", '\0', nullptr, "run PROGRAM itself, also if its name ends in .py"},
    {kTorchrun, "redirects", 'r', "0-3|0:1,1:2",
     "streams that go to files only: 1 stdout, 2 stderr, 3 both; or local rank:streams"},
    {kTorchrun, "tee", 't', "0-3|0:1,1:2", "streams that go to files as well; as --redirects"},
    {kTorchrun, "local_ranks_filter", '\0', "0,1", "local ranks whose output is shown"},
    {kTorchrun, "shutdown_timeout", '\0', "SECONDS", "the same as --grace"},
    {kTorchrun, "numa_binding", '\0', "node", "the same as --bind numa"},

    {kOwn, "grace", '\0', "SECONDS",
     "time to end in when asked to, before SIGKILL (default: 30; 3 after Ctrl-C)"},
    {kOwn, "detach", '\0', nullptr,
     "go on in the background, in a session of its own, with the output in a file"},
    {kOwn, "bind", '\0', "none|core|numa",
     "keep each worker on CPUs of its own, or on those next to its GPU (default: none)"},
    {kOwn, "oversubscribe", '\0', nullptr,
     "let workers share GPUs: for correctness, not speed (sets NCCL_HOSTID and others)"},
    {kOwn, "store", '\0', "agent|worker",
     "who listens on MASTER_PORT: ddp-launch, or rank 0 (PyTorch 1.x, programs that bind it "
     "themselves) (default: agent)"},
    {kOwn, "timeout_start", '\0', "SECONDS", "how long to wait for the other nodes (default: 600)"},
    {kOwn, "pass_local_rank", '\0', nullptr,
     "give PROGRAM --local-rank=N as its first argument, as torch.distributed.launch does"},

    {kRefused, "run_path", '\0', nullptr, "a .py PROGRAM runs under python3 without a flag"},
    {kRefused, "virtual_local_rank", '\0', nullptr,
     "each worker sees all GPUs and takes the one of its LOCAL_RANK"},
    {kRefused, "start_method", '\0', "spawn", "workers are programs, which are always spawned",
     "spawn"},
    {kRefused, "event_log_handler", '\0', "null", "events are not logged; see --verbose", "null"},
    {kRefused, "logs_specs", '\0', "NAME",
     "there are no plugins; see --log_dir, --redirects, --tee"},
    {kRefused, "log_line_prefix_template", '\0', "TEXT", "lines begin with 'rank N| '", ""},
    {kRefused, "duplicate_stdout_filters", '\0', "TEXT", "search the files under --log_dir", ""},
    {kRefused, "duplicate_stderr_filters", '\0', "TEXT", "search the files under --log_dir", ""},
    {kRefused, "signals_to_handle", '\0', "LIST",
     "SIGTERM, SIGINT, SIGHUP and SIGQUIT stop the job, unless they were ignored when it began "
     "(nohup)",
     "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
    {kRefused, "print_completion", '\0', "SHELL", "there is no completion; see --help"},
};

}  // namespace

std::span<const Flag> all_flags() { return kFlags; }

}  // namespace ddp::launcher
