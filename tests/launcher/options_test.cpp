// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <filesystem>

#include "launcher/launch_error.h"
#include "launcher/options/command.h"
#include "launcher/options/flags.h"
#include "launcher/options/given_flags.h"
#include "launcher/options/likely_mistakes.h"
#include "launcher/options/options.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/variables.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;
using ddp::test::error_of;
using ddp::test::Variables;
using Strings = std::vector<std::string>;

namespace {

Options parse(const Strings& args, const Variables& environment = {}) {
  return parse_options(args, ddp::test::lookup_in(environment));
}

std::string parse_error(const Strings& args, const Variables& environment = {}) {
  return error_of([&] { static_cast<void>(parse(args, environment)); });
}

using Backend = NodeOptions::Backend;
using Binding = PlacementOptions::Binding;
using Streams = StreamSelection::Streams;

}  // namespace

TEST_CASE("the command line is cut at the program, whose flags stay untouched", "[options]") {
  const Strings worker = {"./train", "-n", "4", "--help", "--show", "all", "--", "--version"};
  Strings args = {"-n", "2", "--show=1"};
  args.insert(args.end(), worker.begin(), worker.end());
  const Options options = parse(args);
  CHECK(options.action == Options::Action::kRun);
  CHECK(options.workers.number == 2);
  CHECK(options.logs.show.ranks == std::vector<int>{1});
  CHECK(options.program.command == worker);
}

TEST_CASE("a double dash ends the flags and is dropped once", "[options]") {
  CHECK(parse({"-n2", "--", "--odd-name", "--"}).program.command == Strings{"--odd-name", "--"});
}

TEST_CASE("flags accept '-' for '_', '=' or a blank, a short form, and abbreviations",
          "[options]") {
  for (const Strings& args :
       {Strings{"--nproc_per_node=3", "x"}, Strings{"--nproc-per-node=3", "x"},
        Strings{"--nproc-per_node", "3", "x"}, Strings{"-n", "3", "x"}, Strings{"-n3", "x"},
        Strings{"-n=3", "x"}, Strings{"--nproc", "3", "x"}, Strings{"--np=3", "x"}}) {
    CAPTURE(args);
    CHECK(parse(args).workers.number == 3);
    CHECK(parse(args).program.command == Strings{"x"});
  }
}

TEST_CASE("without flags one worker meets on a free loopback port", "[options]") {
  const Options options = parse({"x"});
  CHECK(options.workers.kind == WorkerRequest::Kind::kNumber);
  CHECK(options.workers.number == 1);
  CHECK(options.nodes.count == 1);
  CHECK_FALSE(options.nodes.rank);
  CHECK_FALSE(options.nodes.run_id);
  CHECK(to_string(options.nodes.endpoint) == "127.0.0.1:0");
  CHECK(options.store_host == StoreHost::kAgent);
  CHECK(options.max_restarts == 0);
  CHECK(options.role == "default");
  CHECK_FALSE(options.logs.directory);
  CHECK_FALSE(options.placement.gpus);
  CHECK_FALSE(options.grace);
  CHECK_FALSE(options.detach);
  CHECK_FALSE(options.verbose);
}

TEST_CASE("torchrun's flags reach their options", "[options]") {
  const Options options = parse({"--nproc_per_node",
                                 "gpu",
                                 "--nnodes",
                                 "2:2",
                                 "--node_rank=1",
                                 "--master-addr",
                                 "node0",
                                 "--master_port",
                                 "29501",
                                 "--max_restarts",
                                 "3",
                                 "--monitor_interval=0.1",
                                 "--role",
                                 "trainer",
                                 "--rdzv_id",
                                 "job",
                                 "--rdzv_conf",
                                 "timeout=30",
                                 "--local-addr",
                                 "10.0.0.2",
                                 "--log_dir",
                                 "logs",
                                 "-r",
                                 "3",
                                 "-t0:1,1:2",
                                 "--local_ranks_filter",
                                 "0,1",
                                 "--shutdown-timeout",
                                 "7",
                                 "--numa_binding=node",
                                 "--no-python",
                                 "x"});
  CHECK(options.workers.kind == WorkerRequest::Kind::kGpu);
  CHECK(options.nodes.count == 2);
  CHECK(options.nodes.rank == 1);
  CHECK(to_string(options.nodes.endpoint) == "node0:29501");
  CHECK(options.nodes.run_id == "job");
  CHECK(options.nodes.start_timeout == ddp::Timeout(30'000));
  CHECK(options.max_restarts == 3);
  CHECK(options.role == "trainer");
  CHECK(options.logs.directory == "logs");
  CHECK(options.logs.redirects.has(Streams::kStderr, 5));
  CHECK(options.logs.tee.has(Streams::kStdout, 0));
  CHECK_FALSE(options.logs.tee.has(Streams::kStderr, 0));
  CHECK(options.logs.tee.has(Streams::kStderr, 1));
  CHECK_FALSE(options.logs.tee.has(Streams::kStderr, 2));
  CHECK(options.logs.local_ranks_filter == std::vector<int>{0, 1});
  CHECK(options.grace == ddp::Timeout(7000));
  CHECK(options.failure_grace == ddp::Timeout(7000));
  CHECK(options.placement.binding == Binding::kNuma);
  CHECK(options.program.kind == ProgramOptions::Kind::kNative);
  CHECK(parse({"-m", "x"}).program.kind == ProgramOptions::Kind::kModule);
  CHECK(parse({"--nproc_per_node=auto", "x"}).workers.kind == WorkerRequest::Kind::kAuto);
  CHECK(parse({"--nproc_per_node=cpu", "x"}).workers.kind == WorkerRequest::Kind::kCpu);
}

TEST_CASE("our own flags reach their options", "[options]") {
  const Options options = parse({"--gpus", "2,GPU-8f4a", "--show", "all", "--grace", "0.5",
                                 "--detach", "--bind", "core", "--oversubscribe", "--store=worker",
                                 "--timeout-start=5", "--pass-local-rank", "-v", "x"});
  CHECK(options.placement.gpus == Strings{"2", "GPU-8f4a"});
  CHECK(options.placement.binding == Binding::kCore);
  CHECK(options.placement.oversubscribe);
  CHECK(options.logs.show.kind == Show::Kind::kAll);
  CHECK(options.grace == ddp::Timeout(500));
  CHECK_FALSE(options.failure_grace);
  CHECK(options.detach);
  CHECK(options.store_host == StoreHost::kWorker);
  CHECK(options.nodes.start_timeout == ddp::Timeout(5000));
  CHECK(options.program.pass_local_rank);
  CHECK(options.verbose);
  CHECK(parse({"--dry-run", "x"}).action == Options::Action::kDryRun);
}

TEST_CASE("each listed GPU gets a worker, unless the number of workers is given", "[options]") {
  CHECK(parse({"--gpus=2,7", "x"}).workers.number == 2);
  CHECK(parse({"--gpus=2,7", "-n1", "x"}).workers.number == 1);
}

TEST_CASE("a variable PET_NAME is a flag's default", "[options]") {
  const Variables environment = {{"PET_NPROC_PER_NODE", "3"},       {"PET_MAX_RESTARTS", ""},
                                 {"PET_NO_PYTHON", "True"},         {"PET_VERBOSE", "False"},
                                 {"PET_EVENT_LOG_HANDLER", "null"}, {"PET_RUN_PATH", "0"}};
  const Options options = parse({"x"}, environment);
  CHECK(options.workers.number == 3);
  CHECK(options.max_restarts == 0);
  CHECK(options.program.kind == ProgramOptions::Kind::kNative);
  CHECK_FALSE(options.verbose);
  CHECK(parse({"-n5", "x"}, environment).workers.number == 5);
  CHECK_THAT(parse_error({"x"}, {{"PET_NNODES", "two"}}), Contains("PET_NNODES=two"));
  CHECK_THAT(parse_error({"x"}, {{"PET_MODULE", "yes"}}), Contains("PET_MODULE=yes"));
  CHECK_THAT(parse_error({"x"}, {{"PET_LOGS_SPECS", "mine"}}),
             Contains("PET_LOGS_SPECS is not supported"));
}

TEST_CASE("PYTHON_EXEC names the Python", "[options]") {
  CHECK(parse({"x"}).program.python == "python3");
  CHECK(parse({"x"}, {{"PYTHON_EXEC", "/opt/python"}}).program.python == "/opt/python");
}

TEST_CASE("nodes meet at an endpoint that all of them can reach", "[options]") {
  const auto endpoint = [](Strings args) {
    args.emplace_back("x");
    return to_string(parse(args).nodes.endpoint);
  };
  CHECK(endpoint({"--master_port=29500"}) == "127.0.0.1:29500");
  CHECK(endpoint({"--master_addr=[::1]"}) == "[::1]:0");
  CHECK(endpoint({"--nnodes=2", "--master_addr=node0"}) == "node0:29500");
  CHECK(endpoint({"--nnodes=2", "--rdzv_endpoint=node0"}) == "node0:29500");
  CHECK(endpoint({"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=node0"}) == "node0:29400");
  CHECK(endpoint({"--nnodes=2", "--rdzv_endpoint=node0:1234", "--master_addr=other",
                  "--master_port=1"}) == "node0:1234");
  CHECK(endpoint({"--rdzv_endpoint=node0:1234"}) == "127.0.0.1:1234");  // one node needs no name
  CHECK(endpoint({"--rdzv_endpoint=[fe80::1]:1234"}) == "[fe80::1]:1234");
  CHECK(endpoint({"--rdzv_endpoint=fe80::1"}) == "[fe80::1]:0");
  CHECK(endpoint({"--standalone", "--rdzv_endpoint=node0:1234"}) == "127.0.0.1:0");
  CHECK(parse({"--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=a", "x"}).nodes.backend ==
        Backend::kC10d);
  CHECK_FALSE(parse({"--standalone", "--rdzv_id=job", "x"}).nodes.run_id);

  CHECK_THAT(parse_error({"--nnodes=2", "--rdzv_endpoint=a:0", "x"}), Contains("--master_port"));
  CHECK_THAT(parse_error({"--node_rank=1", "x"}), Contains("--node_rank=1"));
  CHECK_THAT(parse_error({"--standalone", "--nnodes=2", "x"}), Contains("--standalone"));
}

TEST_CASE("torchrun's flags that we lack are refused with what to do instead", "[options]") {
  CHECK_THAT(parse_error({"--nnodes=1:4", "x"}), Contains("--nnodes=1:4") && Contains("grow"));
  CHECK_THAT(parse_error({"--rdzv_backend=etcd-v2", "x"}),
             Contains("--rdzv_backend=etcd-v2") && Contains("static") && Contains("c10d"));
  CHECK_THAT(parse_error({"--rdzv_conf=is_host=1", "x"}), Contains("--rdzv_conf=is_host=1"));
  CHECK_THAT(parse_error({"--start_method=fork", "x"}), Contains("--start_method"));
  CHECK_THAT(parse_error({"--virtual-local-rank", "x"}), Contains("LOCAL_RANK"));
  CHECK_THAT(parse_error({"--numa_binding=socket", "x"}), Contains("--bind"));
  CHECK_THAT(parse_error({"-m", "--no_python", "x"}), Contains("--module and --no_python"));
  CHECK(parse({"--start_method=spawn", "--nnodes=1:1", "x"}).program.command == Strings{"x"});
  for (const Flag& flag : all_flags()) {
    if (flag.group != Flag::Group::kRefused) continue;
    CAPTURE(flag.name);
    const std::string text = std::string("--") + flag.name;
    CHECK_THAT(parse_error({flag.takes_value() ? text + "=other" : text, "x"}),
               Contains(text + " is not supported: ") && Contains(flag.help));
  }
}

TEST_CASE("help and version need no program", "[options]") {
  CHECK(parse({"--help"}).action == Options::Action::kPrintHelp);
  CHECK(parse({"-h"}).action == Options::Action::kPrintHelp);
  CHECK(parse({"--version"}).action == Options::Action::kPrintVersion);
  for (const Flag& flag : all_flags()) {
    if (flag.group != Flag::Group::kRefused) CHECK_THAT(help_text(), Contains(flag.name));
  }
}

TEST_CASE("an unknown flag is refused with the nearest known one", "[options]") {
  CHECK_THAT(parse_error({"--nproc_per_nide=2", "x"}), Contains("did you mean --nproc_per_node?"));
  CHECK_THAT(parse_error({"--master-prot=1", "x"}), Contains("did you mean --master_port?"));
  CHECK_THAT(parse_error({"--vrebose", "x"}), Contains("did you mean --verbose?"));
  CHECK_THAT(parse_error({"--nprocs", "2", "x"}), Contains("did you mean --nproc_per_node?"));
  CHECK_THAT(parse_error({"--ep", "2", "x"}), !Contains("mean"));
  CHECK_THAT(parse_error({"--quantum", "x"}), Contains("'--quantum'") && !Contains("mean"));
  CHECK_THAT(parse_error({"-x", "y"}), Contains("'-x'"));
  CHECK_THAT(parse_error({"--=5", "x"}), Contains("unknown flag '--=5'"));
}

TEST_CASE("a flag is not taken for the value that another lacks", "[options]") {
  CHECK(parse_error({"--log_dir", "-n", "2", "x"}) ==
        "--log_dir needs a value (DIR), but '-n' follows");
  for (const char* follows : {"-n4", "-np", "--grace=1", "--max-restarts", "--m", "--"}) {
    CHECK_THAT(parse_error({"--rdzv_id", follows, "x"}),
               Contains("needs a value (ID), but '" + std::string(follows) + "' follows"));
  }
  CHECK(parse({"--log_dir", "-", "x"}).logs.directory == "-");
  CHECK(parse({"--log_dir", "--mine", "x"}).logs.directory == "--mine");
  CHECK(parse({"--log_dir=-n", "x"}).logs.directory == "-n");
}

TEST_CASE("an id that is too long for the keys of a store is refused", "[options]") {
  const std::string longest(32768, 'i');
  CHECK(parse({"--rdzv_id=" + longest, "x"}).nodes.run_id == longest);
  CHECK(parse_error({"--rdzv_id=" + longest + "i", "x"}) ==
        "--rdzv_id: an id of 32769 bytes is over the limit of 32768");
}

TEST_CASE("torchrun's defaults that are empty count as not given", "[options]") {
  const Options options =
      parse({"--rdzv_endpoint=", "--rdzv_conf", "", "--local_ranks_filter=", "x"});
  CHECK(to_string(options.nodes.endpoint) == "127.0.0.1:0");
  CHECK(options.nodes.start_timeout == NodeOptions().start_timeout);
  CHECK_FALSE(options.logs.local_ranks_filter);
}

TEST_CASE("an ambiguous abbreviation of a flag is refused with the candidates", "[options]") {
  CHECK_THAT(parse_error({"--no=1", "x"}), Contains("--node_rank") && Contains("--no_python"));
  CHECK_THAT(parse_error({"--master", "x"}), Contains("--master_addr, --master_port"));
}

TEST_CASE("a bad value is refused, naming flag and value", "[options]") {
  CHECK_THAT(parse_error({"-n", "0", "x"}), Contains("--nproc_per_node=0"));
  CHECK_THAT(parse_error({"-n", "-1", "x"}), Contains("--nproc_per_node=-1"));
  CHECK_THAT(parse_error({"-n", "2x", "x"}), Contains("--nproc_per_node=2x"));
  CHECK_THAT(parse_error({"-n=", "x"}), Contains("--nproc_per_node="));
  for (const char* many : {"65537", "9999999999"}) {
    CHECK(parse_error({"-n", many, "x"}) ==
          "--nproc_per_node=" + std::string(many) +
              ": expected a number from 1 to 65536, auto, gpu or cpu");
    CHECK(parse_error({"--nnodes", many, "x"}) ==
          "--nnodes=" + std::string(many) + ": expected a number from 1 to 65536");
  }
  CHECK_THAT(parse_error({"--max_restarts=9999999999", "x"}),
             Contains("expected a number from 0 to 2147483647"));
  CHECK_THAT(parse_error({"--master_port=65536", "x"}), Contains("--master_port=65536"));
  CHECK_THAT(parse_error({"--show=1,,2", "x"}), Contains("--show=1,,2"));
  CHECK_THAT(parse_error({"--show=-1", "x"}), Contains("--show=-1"));
  CHECK_THAT(parse_error({"--grace=nan", "x"}), Contains("--grace=nan"));
  CHECK_THAT(parse_error({"--nnodes=0", "x"}), Contains("--nnodes=0"));
  CHECK_THAT(parse_error({"--nnodes=1:2:3", "x"}), Contains("--nnodes=1:2:3"));
  CHECK_THAT(parse_error({"--max_restarts=-1", "x"}), Contains("--max_restarts=-1"));
  CHECK_THAT(parse_error({"--rdzv_endpoint=:29400", "x"}), Contains("--rdzv_endpoint="));
  CHECK_THAT(parse_error({"--master_addr=[]", "x"}), Contains("--master_addr=[]"));
  CHECK_THAT(parse_error({"--rdzv_endpoint=[]:1", "x"}), Contains("--rdzv_endpoint=[]"));
  CHECK_THAT(parse_error({"--redirects=4", "x"}), Contains("--redirects=4"));
  CHECK_THAT(parse_error({"--tee=0:1,x:2", "x"}), Contains("--tee=0:1,x:2"));
  CHECK_THAT(parse_error({"--tee=0:1,2", "x"}), Contains("--tee=0:1,2"));
  CHECK_THAT(parse_error({"--gpus=1,", "x"}), Contains("--gpus=1,"));
  CHECK_THAT(parse_error({"--gpus=1,1", "x"}), Contains("named twice"));
  CHECK_THAT(parse_error({"--bind=socket", "x"}), Contains("none, core, numa"));
  CHECK_THAT(parse_error({"--store=etcd", "x"}), Contains("agent, worker"));
  CHECK_THAT(parse_error({"--log_dir=", "x"}), Contains("--log_dir="));
  CHECK_THAT(parse_error({"--verbose=1", "x"}), Contains("takes no value"));
  CHECK_THAT(parse_error({"--grace"}), Contains("--grace needs a value"));
  CHECK_THAT(parse_error({"-n", "2"}), Contains("no PROGRAM"));
}

TEST_CASE("by default rank 0's stdout and everybody's stderr are shown", "[options]") {
  const Show by_default;
  CHECK(by_default.shows_stdout(0));
  CHECK_FALSE(by_default.shows_stdout(1));
  CHECK(by_default.shows_stderr(1));
  const Show listed = parse({"--show=1,3", "x"}).logs.show;
  CHECK_FALSE(listed.shows_stdout(0));
  CHECK_FALSE(listed.shows_stderr(0));
  CHECK(listed.shows_stdout(3));
  CHECK(listed.shows_stderr(1));
  CHECK(parse({"--show=all", "x"}).logs.show.shows_stdout(7));
}

TEST_CASE("Python runs modules and .py files, unless told not to", "[command]") {
  const ddp::test::TemporaryDirectory folder;
  const std::string path = folder.path().string();
  const std::string script = path + "/train.py";
  ddp::test::write_bytes(script, "#!/bin/true\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  ddp::test::write_bytes(path + "/python3", "#!/bin/true\n");
  std::filesystem::permissions(path + "/python3", std::filesystem::perms::owner_all);
  using Kind = ProgramOptions::Kind;
  const auto argv = [&path](const Strings& command, Kind kind) {
    return resolve_command({.command = command, .kind = kind}, path).argv;
  };
  CHECK(argv({"pkg.mod", "-x"}, Kind::kModule) == Strings{"python3", "-u", "-m", "pkg.mod", "-x"});
  CHECK(argv({script, "-x"}, Kind::kNative) == Strings{script, "-x"});
  CHECK(argv({script, "-x"}, Kind::kAny) == Strings{script, "-x"});
  std::filesystem::permissions(script, std::filesystem::perms::owner_read);
  CHECK(argv({script, "-x"}, Kind::kAny) == Strings{"python3", "-u", script, "-x"});
  const ProgramOptions other{.command = {script}, .python = path + "/no-python"};
  CHECK_THAT(error_of([&] { static_cast<void>(resolve_command(other, path)); }),
             Contains("/no-python"));
}

TEST_CASE("a local rank is passed before the worker's own arguments", "[command]") {
  const auto argv = [](bool pass_local_rank) {
    ProgramOptions program{.command = {"sh", "-c"}};
    program.pass_local_rank = pass_local_rank;
    return command_of(resolve_command(program, "/bin"), 3).argv;
  };
  CHECK(argv(true) == Strings{"sh", "--local-rank=3", "-c"});
  CHECK(argv(false) == Strings{"sh", "-c"});
}

TEST_CASE("a variable that nobody reads is remarked on if its name is close to one that counts",
          "[options]") {
  const auto remarks = [](const Strings& environment) { return remarks_on_variables(environment); };
  CHECK(remarks({"DDP_LOGLEVEL=info"}) ==
        Strings{"nothing reads the variable DDP_LOGLEVEL; did you mean DDP_LOG_LEVEL?"});
  CHECK(remarks({"PET_NPROC=2", "DDP_TIME_OUT=5"}) ==
        Strings{"nothing reads the variable PET_NPROC; did you mean PET_NPROC_PER_NODE?",
                "nothing reads the variable DDP_TIME_OUT; did you mean DDP_TIMEOUT?"});
  CHECK(remarks({"DDP_EVENT_FILE=e"}) ==
        Strings{"nothing reads the variable DDP_EVENT_FILE; did you mean DDP_EVENTS_FILE?"});
  CHECK(remarks({"DDP_TIMEOUT=5", "PET_NNODES=2", "PET_MASTER_ADDR=a", "DDP_MY_OWN=1", "TIMEOUT=1",
                 "PET_OF_MINE=cat", "DDP_OVERSUBSCRIBE=1", "DDP_CHECK=1"})
            .empty());
}

TEST_CASE("a launcher's flag behind the program is remarked on where one worker starts",
          "[options]") {
  const auto remark = [](const Strings& args) {
    return remark_on_flag_behind_program(parse(args));
  };
  CHECK(
      remark({"train", "-n", "2"}) ==
      "one worker starts, and -n is train's own flag; ddp-launch's flags stand before the program");
  CHECK_THAT(remark({"train", "--nproc_per_node=2"}),
             Contains("--nproc_per_node=2 is train's own"));
  CHECK(remark({"-n", "2", "train", "-n", "2"}).empty());
  CHECK(remark({"train", "-n", "name"}).empty());
  CHECK(remark({"train", "--epochs", "2"}).empty());
}
