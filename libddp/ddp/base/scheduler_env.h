// SPDX-License-Identifier: MIT
//
// Reads what mpirun and srun tell the processes that they start, so that neither workers nor
// launchers need variables or flags of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddp/base/endpoint.h"
#include "ddp/base/env_reader.h"

namespace ddp {

// The processes that one mpirun or srun started, and which of them this one is.
struct SchedulerEnv {
  std::string starter;  // "mpirun" or "srun"
  int rank = 0;
  int size = 1;
  std::string size_variable;  // which says so
  std::string size_remark;    // on that variable, or empty
  int local_rank = 0;
  int local_size = 1;
  int node_rank = 0;  // of its host
  int node_count = 1;
  Endpoint meeting;    // where rank 0 can listen; no host or port 0 if unknown
  std::string doubt;   // why rank 0 may not be on that host; empty: it is
  std::string run_id;  // differs for each job; empty: unknown

  [[nodiscard]] bool is_on_one_host() const { return local_size == size; }
  // "srun started 4 processes (SLURM_STEP_NUM_TASKS)".
  [[nodiscard]] std::string describe_size() const;
};

// Returns nothing if neither mpirun nor srun seems to have started the process. It reads:
//
//             Open MPI                       Slurm                              MPICH
//   ranks     OMPI_COMM_WORLD_RANK, _SIZE    SLURM_PROCID, _STEP_NUM_TASKS      PMI_RANK, PMI_SIZE
//   on host   OMPI_COMM_WORLD_LOCAL_*        SLURM_LOCALID, _STEP_TASKS_PER_NODE  MPI_LOCAL*
//   host      OMPI_MCA_orte_hnp_uri          the first of SLURM_STEP_NODELIST
//   job       OMPI_MCA_ess_base_jobid        SLURM_JOB_ID, SLURM_STEP_ID
//   Open MPI 5 has host and job in PMIX_NAMESPACE.
//
// The processes meet at MASTER_ADDR:MASTER_PORT if those are set. Otherwise the address is
// 127.0.0.1 if all are on one host, else the host of the table (with Open MPI the one where mpirun
// runs), and the port is meeting_port(). Slurm may put rank 0 on another host than the first: with
// SLURM_DISTRIBUTION=arbitrary, or if that is not SLURMD_NODENAME for rank 0; then there is a
// doubt. The list tells the place of SLURMD_NODENAME, too, by which SLURM_STEP_TASKS_PER_NODE is
// read, since in a heterogeneous job SLURM_NODEID counts by component. In Slurm a process belongs
// to a step only if SLURM_STEP_ID is set: a batch script, which is alone, has the other variables,
// too. Throws EnvironmentError naming a variable that is missing, unparsable or contradictory.
[[nodiscard]] std::optional<SchedulerEnv> parse_scheduler_env(const EnvReader::Lookup& lookup);

// 16384 + (101 job + step) modulo the prime 16381: below the ports that Linux gives to clients, and
// different for jobs with close numbers and for the first hundred steps of each.
[[nodiscard]] std::uint16_t meeting_port(std::uint32_t job, std::uint32_t step);

}  // namespace ddp
