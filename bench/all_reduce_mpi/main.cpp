// SPDX-License-Identifier: MIT
//
// Measures MPI_Allreduce on behalf of bench_all_reduce --compare, which starts it by:
//   mpirun -np N bench_all_reduce_mpi MAX_BYTES
// First writes a line with the library's version. Then it answers every line "BYTES CALLS" on
// standard input with the microseconds of a call (float32 sums, in place), the mean over CALLS
// calls as rank 0 sees it. "0 0" or the end of the input ends it. Ranks sleep until the next line.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace {

struct Command {
  std::int64_t bytes = 0;  // 0 ends the program
  std::int64_t calls = 0;
};

// A rank that waits inside MPI spins, which would take a CPU from the contender that is being
// measured.
void wait_asleep(MPI_Request request) {
  constexpr useconds_t kPeriod = 5000;
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0;) ::usleep(kPeriod);
}

Command next_command(int rank) {
  Command command;
  if (rank == 0 && !(std::cin >> command.bytes >> command.calls)) command = {};
  std::int64_t words[] = {command.bytes, command.calls};
  MPI_Request request;
  MPI_Ibcast(words, 2, MPI_INT64_T, 0, MPI_COMM_WORLD, &request);
  wait_asleep(request);
  return {words[0], words[1]};
}

void all_reduce(std::vector<float>& values, std::size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

// Leaves zeros, which stay small however often they are summed.
void check(std::vector<float>& values, std::size_t count, int rank, int ranks) {
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::fill(values.begin(), end, static_cast<float>(rank + 1));
  all_reduce(values, count);
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  if (std::count(values.begin(), end, sum) != static_cast<std::ptrdiff_t>(count)) {
    std::fprintf(stderr, "bench_all_reduce_mpi: a wrong sum of %zu floats\n", count);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::fill(values.begin(), end, 0.0F);
}

double microseconds(std::vector<float>& values, std::size_t count, std::int64_t calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (std::int64_t i = 0; i < calls; ++i) all_reduce(values, count);
  return 1e6 * (MPI_Wtime() - start) / static_cast<double>(calls);
}

void print_version() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  std::puts(version);
  std::fflush(stdout);
}

void run(std::size_t max_bytes) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) print_version();
  std::vector<float> values(max_bytes / sizeof(float));
  std::size_t checked = 0;
  for (Command command = next_command(rank); command.bytes > 0; command = next_command(rank)) {
    const std::size_t count =
        std::min(values.size(), static_cast<std::size_t>(command.bytes) / sizeof(float));
    if (count != checked) check(values, count, rank, ranks);
    checked = count;
    const double result = microseconds(values, count, command.calls);
    if (rank != 0) continue;
    std::printf("%.3f\n", result);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0);
  MPI_Finalize();
  return 0;
}
