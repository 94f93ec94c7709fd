// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <set>

#include "ddp/base/host_list.h"
#include "ddp/base/scheduler_env.h"
#include "ddp/base/worker_env.h"
#include "support/run_ranks.h"
#include "support/variables.h"

using namespace ddp;
using Catch::Matchers::Contains;
using test::error_of;
using test::lookup_in;
using test::Variables;
using Strings = std::vector<std::string>;

namespace {

WorkerEnv worker_of(const Variables& variables) { return WorkerEnv::parse(lookup_in(variables)); }

SchedulerEnv scheduler_of(const Variables& variables) {
  return parse_scheduler_env(lookup_in(variables)).value();
}

std::string refusal_of(const Variables& variables) {
  return error_of([&] { static_cast<void>(worker_of(variables)); });
}

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

// The environment of rank 3 of 4 on two hosts under Open MPI 4.1.
const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "3"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"OMPI_MCA_ess_base_jobid", "1272053761"},
    {"OMPI_MCA_orte_hnp_uri", "1272053760.0;tcp://10.1.2.3,192.168.0.3:46187;tcp6://[fd00::3]:34"}};

// The environment of rank 5 of 7 on three nodes of a larger Slurm job.
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_NNODES", "3"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4,2,1"},
                          {"SLURM_JOB_NODELIST", "gpu[01-09]"},
                          {"SLURM_STEP_NODELIST", "gpu[03-05]"},
                          {"SLURM_JOB_ID", "4711"},
                          {"SLURM_STEP_ID", "2"}};

}  // namespace

TEST_CASE("Open MPI's variables number workers and say where they meet", "[scheduler]") {
  const WorkerEnv env = worker_of(kOpenMpi);
  CHECK(env.rank == 3);
  CHECK(env.world_size == 4);
  CHECK(env.local_rank == 1);
  CHECK(env.local_world_size == 2);
  CHECK(env.node_rank == 1);
  CHECK(env.node_count == 2);
  CHECK(env.master.host == "10.1.2.3");
  CHECK(env.master.port == meeting_port(19410, 1));
  CHECK(env.run_id == "mpirun-1272053761");
  CHECK_FALSE(env.agent_hosts_store);
}

TEST_CASE("Open MPI 5 gives host and job in one name", "[scheduler]") {
  Variables variables = kOpenMpi;
  variables.erase("OMPI_MCA_ess_base_jobid");
  variables.erase("OMPI_MCA_orte_hnp_uri");
  const auto scheduler = [&](const std::string& job) {
    return scheduler_of(with(variables, {{"PMIX_NAMESPACE", job}}));
  };
  const SchedulerEnv env = scheduler("prterun-node-7-27873@2");
  CHECK(env.meeting.host == "node-7");
  CHECK(env.meeting.port == meeting_port(27873, 2));
  CHECK(env.run_id == "mpirun-node-7-27873@2");
  for (const char* nonsense : {"", "-", "@", "27873@2", "prterun-27873@2", "prterun-vm-x@1",
                               "prterun-vm-27873", "prterun-vm-27873@", "prterun-vm-27873@x"}) {
    INFO(nonsense);
    CHECK(scheduler(nonsense).meeting.host.empty());
    CHECK(scheduler(nonsense).meeting.port == 0);
  }
}

TEST_CASE("processes on one host meet on its loopback address", "[scheduler]") {
  const WorkerEnv env = worker_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                  {"OMPI_MCA_orte_hnp_uri", ""}}));
  CHECK(env.master.host == "127.0.0.1");
  CHECK(env.local_world_size == 4);
}

TEST_CASE("a host that is known by an IPv6 address alone is found", "[scheduler]") {
  const auto host = [](const std::string& uri) {
    return scheduler_of(with(kOpenMpi, {{"OMPI_MCA_orte_hnp_uri", uri}})).meeting.host;
  };
  CHECK(host("7.0;tcp6://[fd00::3]:34589") == "fd00::3");
  CHECK(host("7.0;tcp6://[fd00::3,fd00::4]:34589") == "fd00::3");
  CHECK(host("7.0;tcp://10.0.0.1:1") == "10.0.0.1");
  CHECK(host("nonsense").empty());
}

TEST_CASE("Slurm's variables number workers and say where they meet", "[scheduler]") {
  const WorkerEnv env = worker_of(kSlurm);
  CHECK(env.rank == 5);
  CHECK(env.world_size == 7);
  CHECK(env.local_rank == 1);
  CHECK(env.local_world_size == 2);
  CHECK(env.node_rank == 1);
  CHECK(env.node_count == 3);
  CHECK(env.master.host == "gpu03");
  CHECK(env.master.port == meeting_port(4711, 2));
  CHECK(env.run_id == "slurm-4711.2-0");
  CHECK(worker_of(with(kSlurm, {{"SLURM_RESTART_COUNT", "1"}})).run_id == "slurm-4711.2-1");
}

TEST_CASE("tasks on a node are read from Slurm's short form", "[scheduler]") {
  const auto here = [](const std::string& tasks, const std::string& node) {
    return scheduler_of(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", tasks},
                                      {"SLURM_NODEID", node},
                                      {"SLURM_LOCALID", "0"}}))
        .local_size;
  };
  CHECK(here("3(x2),1", "0") == 3);
  CHECK(here("3(x2),1", "1") == 3);
  CHECK(here("3(x2),1", "2") == 1);
  CHECK(here("7", "0") == 7);
  CHECK_THAT(error_of([&] { here("4,3", "2"); }), Contains("SLURM_TASKS_PER_NODE='4,3'"));
}

TEST_CASE("a Slurm step on one node needs neither lists nor counts of nodes", "[scheduler]") {
  const WorkerEnv env = worker_of({{"SLURM_PROCID", "1"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "0"},
                                   {"SLURM_NTASKS", "2"},
                                   {"SLURM_NNODES", "1"},
                                   {"SLURM_JOB_ID", "4294967000"},
                                   {"SLURM_STEP_ID", "0"}});
  CHECK(env.local_world_size == 2);
  CHECK(env.master.host == "127.0.0.1");
}

TEST_CASE("a list of hosts is expanded as Slurm means it", "[scheduler]") {
  const std::pair<const char*, Strings> expected[] = {
      {"node[001-003,007],x", {"node001", "node002", "node003", "node007", "x"}},
      {"x,gpu[9-11]", {"x", "gpu9", "gpu10", "gpu11"}},
      {"gpu[098-101]", {"gpu098", "gpu099", "gpu100", "gpu101"}},
      {"gpu[7,03-04]", {"gpu7", "gpu03", "gpu04"}},
      {"rack[2-3]n[010-011]", {"rack2n010", "rack2n011", "rack3n010", "rack3n011"}},
      {"gpu[1-2].cluster,y", {"gpu1.cluster", "gpu2.cluster", "y"}},
      {"gpu[12]", {"gpu12"}},
      {"a", {"a"}},
      {"", {}},
      {",,a,", {"a"}},
      {"gpu[3", {"gpu3"}},
      {"gpu[5-3]", {"gpu5"}},
      {"gpu[3-x]", {"gpu3"}},
  };
  for (const auto& [list, hosts] : expected) {
    CAPTURE(list);
    CHECK(hosts_in(list) == hosts);
  }
}

TEST_CASE("a list of hosts without end is cut", "[scheduler]") {
  CHECK(hosts_in("a[0-99999999999999999999]") == Strings{"a0"});
  CHECK(hosts_in("a[0-18446744073709551615]").size() == 65536);
  CHECK(hosts_in("a[0-999]b[0-999],c[1-2]").size() == 65536);
  CHECK(hosts_in("a[0-9],b", 3) == Strings{"a0", "a1", "a2"});
}

TEST_CASE("tasks on a node are those at the place of its host in the list", "[scheduler]") {
  // Two components of a heterogeneous job: SLURM_NODEID counts the nodes by component.
  const Variables mixed = with(kSlurm, {{"SLURM_STEP_NODELIST", "node[001-003]"},
                                        {"SLURM_STEP_TASKS_PER_NODE", "1,4,2"},
                                        {"SLURM_NODEID", "0"},
                                        {"SLURM_LOCALID", "3"}});
  CHECK(scheduler_of(with(mixed, {{"SLURMD_NODENAME", "node002"}})).local_size == 4);
  CHECK_THAT(error_of([&] { (void)scheduler_of(mixed); }), Contains("3 of 1"));
  CHECK_THAT(error_of([&] {
               (void)scheduler_of(with(mixed, {{"SLURMD_NODENAME", "other"}}));
             }),
             Contains("3 of 1"));
}

TEST_CASE("tasks of srun that may look for rank 0 on a wrong host refuse at once", "[scheduler]") {
  const Variables task1 = with(kSlurm, {{"SLURM_PROCID", "1"},
                                        {"SLURM_LOCALID", "0"},
                                        {"SLURM_NTASKS", "3"},
                                        {"SLURM_STEP_NUM_TASKS", "3"},
                                        {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
                                        {"SLURM_STEP_NODELIST", "node[001-003]"}});
  const Variables task0 = with(task1, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "2"}});
  const Variables arbitrary = {{"SLURM_DISTRIBUTION", "arbitrary"}};
  const Variables said = {{"MASTER_ADDR", "node003"}};
  const auto advice = Contains("set MASTER_ADDR to the host of task 0");
  for (const Variables& task : {task0, task1}) {
    CHECK(worker_of(task).master.host == "node001");
    CHECK_THAT(refusal_of(with(task, arbitrary)),
               Contains("SLURM_DISTRIBUTION=arbitrary does not tell") && advice);
    CHECK(worker_of(with(with(task, arbitrary), said)).master.host == "node003");
  }
  const Variables last = with(task0, {{"SLURMD_NODENAME", "node003"}});
  CHECK_THAT(refusal_of(last), Contains("task 0 is on node003 (SLURMD_NODENAME), and not on the "
                                        "first of SLURM_STEP_NODELIST=node[001-003]") &&
                                   advice);
  CHECK(worker_of(with(last, said)).master.host == "node003");
  CHECK(worker_of(with(task0, {{"SLURMD_NODENAME", "node001"}})).master.host == "node001");
  CHECK_THAT(refusal_of(with(task1, {{"SLURMD_NODENAME", "node001"}})),
             Contains("task 0 is not on node001 (SLURMD_NODENAME)") && advice);
  CHECK(worker_of(with(task1, {{"SLURMD_NODENAME", "node002"}})).master.host == "node001");
}

TEST_CASE("a rank that a scheduler counted can say who did, and how to be alone", "[scheduler]") {
  CHECK(worker_of(kSlurm).size_source ==
        "srun started 7 processes (SLURM_STEP_NUM_TASKS); for a single one set "
        "SLURM_STEP_NUM_TASKS=1");
  CHECK_THAT(worker_of(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", ""}})).size_source,
             Contains("(SLURM_NTASKS); for a single one set SLURM_NTASKS=1"));
  CHECK_THAT(worker_of(kOpenMpi).size_source,
             Contains("mpirun started 4 processes (OMPI_COMM_WORLD_SIZE)") &&
                 Contains("set OMPI_COMM_WORLD_SIZE=1"));
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"}) {
    const WorkerEnv alone = worker_of(with(kSlurm, {{name, "1"}}));
    CHECK(alone.world_size == 1);
    CHECK(alone.size_source.empty());
  }
}

TEST_CASE("a rank knows whether a scheduler or MASTER_ADDR says where all meet", "[scheduler]") {
  CHECK(worker_of(kSlurm).master_source == "srun");
  CHECK(worker_of(kOpenMpi).master_source == "mpirun");
  CHECK(worker_of(with(kSlurm, {{"MASTER_ADDR", "gpu03"}})).master_source.empty());
}

TEST_CASE("a local rank without a rank, which hides the scheduler's, is to be unset",
          "[scheduler]") {
  CHECK(refusal_of(with(kSlurm, {{"LOCAL_RANK", "0"}})) ==
        "LOCAL_RANK=0 is set, but RANK is not: unset LOCAL_RANK, since srun's variables number "
        "this process");
  CHECK(refusal_of(
            with(kOpenMpi,
                 {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}})) ==
        "LOCAL_RANK=0 and LOCAL_WORLD_SIZE=2 are set, but RANK is not: unset LOCAL_RANK and "
        "LOCAL_WORLD_SIZE, since mpirun's variables number this process");
  CHECK_THAT(refusal_of(with(kSlurm, {{"LOCAL_RANK", "0"}, {"WORLD_SIZE", "7"}})),
             Contains("incomplete: RANK, MASTER_ADDR, MASTER_PORT not set, but WORLD_SIZE=7"));
}

TEST_CASE("a step with more tasks than its job has is said to be perhaps another job's",
          "[scheduler]") {
  CHECK_THAT(worker_of(with(kSlurm, {{"SLURM_NTASKS", "2"}})).size_source,
             Contains("srun started 7 processes (SLURM_STEP_NUM_TASKS, more than SLURM_NTASKS=2: "
                      "it may be inherited from another job)"));
}

TEST_CASE("tasks on one host need not know which one it is", "[scheduler]") {
  const WorkerEnv env = worker_of(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "7"},
                                                {"SLURM_NODEID", "0"},
                                                {"SLURM_LOCALID", "5"},
                                                {"SLURM_STEP_NODELIST", "node7"},
                                                {"SLURMD_NODENAME", "node7"},
                                                {"SLURM_DISTRIBUTION", "arbitrary"}}));
  CHECK(env.master.host == "127.0.0.1");
}

TEST_CASE("the user's meeting point overrides the scheduler's", "[scheduler]") {
  const Variables said = {{"MASTER_ADDR", "10.9.9.9"}, {"MASTER_PORT", "1234"}};
  CHECK(to_string(worker_of(with(kOpenMpi, said)).master) == "10.9.9.9:1234");
  CHECK(to_string(worker_of(with(kSlurm, said)).master) == "10.9.9.9:1234");
  CHECK(worker_of(with(kSlurm, {{"MASTER_PORT", "1234"}})).master.host == "gpu03");
}

TEST_CASE("MPICH numbers ranks, but the user must give the meeting point", "[scheduler]") {
  const Variables mpich = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  CHECK_THAT(refusal_of(mpich),
             Contains("mpirun started 2 processes") && Contains("set MASTER_ADDR and MASTER_PORT"));
  const WorkerEnv env = worker_of(with(mpich, {{"MASTER_PORT", "1234"}}));
  CHECK(env.rank == 1);
  CHECK(to_string(env.master) == "127.0.0.1:1234");
}

TEST_CASE("jobs and steps that may run at the same time meet at different ports", "[scheduler]") {
  std::set<std::uint16_t> ports;
  for (std::uint32_t job = 100'000; job < 100'040; ++job) {
    for (std::uint32_t step = 0; step < 100; ++step) ports.insert(meeting_port(job, step));
  }
  CHECK(ports.size() == 40 * 100);
  CHECK(*ports.begin() >= 16384);
  CHECK(*ports.rbegin() < 32768);
  CHECK(meeting_port(0xffffffff, 0xffffffff) < 32768);
}

TEST_CASE("a single process is a world of one, whoever started it", "[scheduler]") {
  CHECK(worker_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_NTASKS", "4"}}).world_size == 1);
  CHECK(worker_of({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "4"}})
            .world_size == 1);
  CHECK(worker_of({{"SLURM_STEP_ID", "4294967290"}, {"SLURM_NTASKS", "1"}}).world_size == 1);
}

TEST_CASE("a batch script is not a step: srun starts its tasks", "[scheduler]") {
  Variables script = kSlurm;
  script.erase("SLURM_STEP_ID");
  CHECK_FALSE(parse_scheduler_env(lookup_in(script)));
  CHECK_THAT(refusal_of(script), Contains("SLURM_NTASKS=7 but RANK is not set"));
}

TEST_CASE("mpirun's variables override those of the srun that it uses", "[scheduler]") {
  CHECK(worker_of(with(kSlurm, kOpenMpi)).world_size == 4);
}

TEST_CASE("workers that are numbered already are not numbered again", "[scheduler]") {
  const Variables numbered = with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  CHECK_THAT(refusal_of(numbered), Contains("MASTER_ADDR, MASTER_PORT not set"));
  const WorkerEnv env =
      worker_of(with(numbered, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "1"}, {"RANK", "1"}}));
  CHECK(env.world_size == 2);
  CHECK(env.run_id == "none");
}

TEST_CASE("invalid variables of schedulers are named", "[scheduler]") {
  CHECK_THAT(refusal_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "x"}})),
             Contains("OMPI_COMM_WORLD_RANK='x'"));
  CHECK_THAT(refusal_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}})),
             Contains("variables of mpirun contradict each other: rank 4 of 4"));
  CHECK_THAT(refusal_of(with(kOpenMpi, {{"OMPI_MCA_orte_hnp_uri", ""}})),
             Contains("does not say where they can meet"));
  CHECK_THAT(refusal_of(with(kSlurm, {{"SLURM_LOCALID", ""}})),
             Contains("srun started 7 processes, but SLURM_LOCALID is not set"));
  CHECK_THAT(refusal_of(with(kSlurm, {{"SLURM_JOB_ID", "-1"}})), Contains("SLURM_JOB_ID='-1'"));
  CHECK_THAT(refusal_of(with(kSlurm, {{"WORLD_SIZE", "8"}})),
             Contains("WORLD_SIZE=8, but srun started 7 processes"));
  CHECK_THAT(refusal_of(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "65537"}})),
             Contains("srun started 65537 processes, but a job can have 65536 ranks"));
}
