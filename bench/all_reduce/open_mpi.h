// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "support/child_process.h"

namespace ddp::bench {

// Ranks of Open MPI, started by mpirun with a user's defaults, that sleep between two samples. Only
// rank 0 of ours has them.
class OpenMpi {
 public:
  // Throws ddp::Error with the reason if there is no bench_all_reduce_mpi beside this program, or
  // mpirun does not start it.
  OpenMpi(int ranks, std::size_t max_bytes);
  ~OpenMpi();
  OpenMpi(const OpenMpi&) = delete;
  OpenMpi& operator=(const OpenMpi&) = delete;

  [[nodiscard]] const std::string& version() const { return version_; }
  // Of an all_reduce of so many bytes, the mean of so many calls.
  [[nodiscard]] double microseconds(std::size_t bytes, int calls);

 private:
  [[nodiscard]] std::string next_line();

  test::ChildProcess mpirun_;
  std::size_t lines_read_ = 0;
  std::string version_;
};

}  // namespace ddp::bench
