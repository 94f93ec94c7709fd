// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>

#include "launcher/options/fellow_launchers.h"
#include "launcher/placement/worker_count.h"
#include "support/run_ranks.h"
#include "support/variables.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;
using ddp::test::error_of;
using ddp::test::lookup_in;
using ddp::test::Variables;
using Strings = std::vector<std::string>;

namespace {

NodeOptions nodes_of(Strings flags, const Variables& variables) {
  flags.emplace_back("x");
  return parse_options(flags, lookup_in(variables)).nodes;
}

// The environment of the second of two launchers, which are on two hosts.
const Variables kSlurm = {{"SLURM_PROCID", "1"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_NTASKS", "2"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                          {"SLURM_STEP_NODELIST", "gpu[07,11]"},
                          {"SLURM_JOB_ID", "4711"},
                          {"SLURM_STEP_ID", "0"}};

// The same on one host.
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"OMPI_MCA_ess_base_jobid", "65537"}};

}  // namespace

TEST_CASE("launchers that srun started are the nodes of one job", "[fellows]") {
  const NodeOptions nodes = nodes_of({}, kSlurm);
  CHECK(nodes.count == 2);
  CHECK(nodes.rank == 1);
  CHECK(nodes.endpoint.host == "gpu07");
  CHECK(nodes.endpoint.port == ddp::meeting_port(4711, 0));
  CHECK(nodes.run_id == "slurm-4711.0-0");
  CHECK_FALSE(nodes.on_one_host);
}

TEST_CASE("launchers on one host may meet on its loopback address", "[fellows]") {
  const NodeOptions nodes = nodes_of({}, kOpenMpi);
  CHECK(nodes.count == 2);
  CHECK(nodes.rank == 1);
  CHECK(to_string(nodes.endpoint) == "127.0.0.1:" + std::to_string(ddp::meeting_port(1, 1)));
  CHECK(nodes.run_id == "mpirun-65537");
  CHECK(nodes.on_one_host);
  CHECK(nodes_of({"--master_addr=localhost"}, kOpenMpi).endpoint.host == "localhost");
}

TEST_CASE("launchers know who has counted them, and how to be alone", "[fellows]") {
  CHECK(nodes_of({}, kSlurm).count_source ==
        "srun started 2 processes (SLURM_STEP_NUM_TASKS), each of which counts as a node; alone: "
        "--standalone");
  CHECK(nodes_of({"--nnodes=2"}, kSlurm).count_source.empty());
  CHECK(nodes_of({"--standalone"}, kSlurm).count_source.empty());
}

TEST_CASE("flags come before what the scheduler says", "[fellows]") {
  const NodeOptions nodes = nodes_of(
      {"--nnodes=2", "--node_rank=0", "--rdzv_endpoint=10.0.0.9:77", "--rdzv_id=mine"}, kSlurm);
  CHECK(nodes.rank == 0);
  CHECK(to_string(nodes.endpoint) == "10.0.0.9:77");
  CHECK(nodes.run_id == "mine");
  CHECK(nodes_of({"--master_addr=10.0.0.9"}, kSlurm).endpoint.port == ddp::meeting_port(4711, 0));
  CHECK_FALSE(nodes_of({"--rdzv_backend=c10d"}, kSlurm).rank);
}

TEST_CASE("flags for one node or another number of nodes override the scheduler", "[fellows]") {
  for (const char* flag : {"--nnodes=1", "--standalone"}) {
    const NodeOptions nodes = nodes_of({flag}, kOpenMpi);
    CHECK(nodes.count == 1);
    CHECK_FALSE(nodes.rank);
    CHECK_FALSE(nodes.run_id);
    CHECK(nodes.endpoint.port == 0);
  }
  const NodeOptions three = nodes_of({"--nnodes=3", "--master_addr=10.0.0.9"}, kSlurm);
  CHECK_FALSE(three.rank);
  CHECK(three.endpoint.port == 29500);
}

TEST_CASE("a launcher inside a worker does not join the launchers around it", "[fellows]") {
  Variables worker = kOpenMpi;
  worker["RANK"] = "1";
  worker["TORCHELASTIC_RUN_ID"] = "outer";
  CHECK(nodes_of({}, worker).count == 1);
}

TEST_CASE("a RANK that no launcher has set does not keep launchers apart", "[fellows]") {
  Variables script = kSlurm;  // export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS ...
  script["RANK"] = "1";
  script["WORLD_SIZE"] = "2";
  script["MASTER_ADDR"] = "gpu08";
  script["MASTER_PORT"] = "29500";
  const NodeOptions nodes = nodes_of({}, script);
  CHECK(nodes.count == 2);
  CHECK(nodes.rank == 1);
  CHECK(to_string(nodes.endpoint) == "gpu08:29500");
}

TEST_CASE("launchers whose starter does not tell where they are refuse to be alone by chance",
          "[fellows]") {
  Variables pmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  CHECK_THAT(error_of([&] { nodes_of({}, pmi); }), Contains("PMI_SIZE=2") &&
                                                       Contains("--nnodes=2 --rdzv_backend=c10d "
                                                                "--rdzv_endpoint=HOST") &&
                                                       Contains("--standalone"));
  CHECK_THAT(error_of([&] { nodes_of({"--master_addr=10.0.0.9"}, pmi); }), Contains("PMI_SIZE=2"));
  CHECK(nodes_of({"--standalone"}, pmi).count == 1);
  CHECK(nodes_of({"--nnodes=1"}, pmi).count == 1);
  CHECK(nodes_of({"--nnodes=2", "--node_rank=1", "--master_addr=10.0.0.9"}, pmi).rank == 1);
  CHECK(nodes_of({}, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).count == 1);
  pmi["RANK"] = "1";
  CHECK_THAT(error_of([&] { nodes_of({}, pmi); }), Contains("PMI_SIZE=2"));
  pmi["TORCHELASTIC_RUN_ID"] = "outer";
  CHECK(nodes_of({}, pmi).count == 1);
}

TEST_CASE("launchers that cannot know where to meet say what is missing", "[fellows]") {
  Variables far = kOpenMpi;
  far["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  far["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  CHECK_THAT(
      error_of([&] { nodes_of({}, far); }),
      Contains("nothing tells the 2 nodes where they can meet") && Contains("--master_addr"));
  CHECK(nodes_of({"--master_addr=10.0.0.9"}, far).endpoint.host == "10.0.0.9");
}

TEST_CASE("launchers that may look for node 0 on a wrong host refuse at once", "[fellows]") {
  Variables arbitrary = kSlurm;
  arbitrary["SLURM_DISTRIBUTION"] = "arbitrary";
  CHECK_THAT(error_of([&] { nodes_of({}, arbitrary); }),
             Contains("SLURM_DISTRIBUTION=arbitrary does not tell") && Contains("--master_addr"));
  CHECK(nodes_of({"--master_addr=gpu11"}, arbitrary).endpoint.host == "gpu11");
  CHECK(nodes_of({"--rdzv_endpoint=gpu11"}, arbitrary).endpoint.host == "gpu11");
  // Then the host decides who is node 0, or the user does.
  CHECK(nodes_of({"--rdzv_backend=c10d"}, arbitrary).endpoint.host == "gpu07");
  CHECK(nodes_of({"--node_rank=0"}, arbitrary).endpoint.host == "gpu07");
  arbitrary["MASTER_ADDR"] = "gpu11";
  CHECK(nodes_of({}, arbitrary).endpoint.host == "gpu11");
}

TEST_CASE("a launcher that mpirun binds to fewer CPUs than workers prints a remark", "[fellows]") {
  Variables bound = kOpenMpi;
  bound["OMPI_MCA_orte_bound_at_launch"] = "1";
  const auto remark = [](int workers, const Variables& variables) {
    return remark_on_bound_launcher(workers, {4, 5}, lookup_in(variables));
  };
  CHECK_THAT(remark(3, bound), Contains("bound ddp-launch to CPUs 4-5, which 3 workers") &&
                                   Contains("--bind-to none"));
  CHECK(remark(2, bound).empty());
  CHECK(remark(3, kOpenMpi).empty());
}

TEST_CASE("a batch script that uses one of several nodes gets a remark", "[fellows]") {
  const auto remark = [](const Variables& variables) {
    return remark_on_unused_nodes(NodeOptions(), lookup_in(variables));
  };
  CHECK_THAT(remark({{"SLURM_JOB_NUM_NODES", "2"}}),
             Contains("2 nodes, of which only this one is used") && Contains("srun"));
  CHECK(remark({{"SLURM_JOB_NUM_NODES", "1"}}).empty());
  CHECK(remark({{"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_STEP_ID", "0"}}).empty());
  CHECK(remark({}).empty());
}
