// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "support/child_process.h"

namespace ddp::bench {

// Ranks of Open MPI, started by mpirun with its defaults. They sleep between samples. Only our rank
// 0 has this object.
class OpenMpi {
 public:
  // Throws ddp::Error with the reason if this program has no bench_all_reduce_mpi beside it, or if
  // mpirun does not start that.
  OpenMpi(int ranks, std::size_t max_bytes);
  ~OpenMpi();
  OpenMpi(const OpenMpi&) = delete;
  OpenMpi& operator=(const OpenMpi&) = delete;

  [[nodiscard]] const std::string& version() const { return version_; }
  // The microseconds of an all_reduce of `bytes` bytes, the mean of `calls` calls.
  [[nodiscard]] double microseconds(std::size_t bytes, int calls);

 private:
  [[nodiscard]] std::string next_line();

  test::ChildProcess mpirun_;
  std::size_t lines_read_ = 0;
  std::string version_;
};

}  // namespace ddp::bench
