// SPDX-License-Identifier: MIT
//
// A worker for tests of ends, good and bad: collective_worker MODE
//   loop     all_reduces for ever
//   exit     calls exit(0) while collectives are in flight
//   return   returns from main while collectives are in flight
//   throw    lets an exception out of a frame that owns the group
//   log      returns from main while another thread is logging
//   sum      one all_reduce; prints the sum on rank 0
// It prints "rank R ready" once it communicates; on an error it prints the text and returns 3.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/ddp.h"

namespace {

void all_reduce_in_flight(ddp::ProcessGroup& group, std::vector<float>& values) {
  for (int i = 0; i < 20; ++i) group.all_reduce(ddp::buffer_of(values));
}

// For ever, on a thread that nobody joins.
void log_in_background() {
  std::thread([] {
    for (;;) ddp::log::error("still here");
  }).detach();
}

int run(const std::string& mode) {
  if (mode == "log") {
    log_in_background();
    return 0;
  }
  std::vector<float> values(100003, 1.0F);  // outlives the group, and exit() leaves it alone
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  group->all_reduce(ddp::buffer_of(values)).wait();
  std::printf("rank %d ready\n", group->rank());
  std::fflush(stdout);
  if (mode == "sum") {
    if (group->rank() == 0) std::printf("sum %g\n", static_cast<double>(values[0]));
    return 0;
  }
  while (mode == "loop") group->all_reduce(ddp::buffer_of(values)).wait();
  all_reduce_in_flight(*group, values);
  if (mode == "exit") std::exit(0);
  if (mode == "throw") throw std::runtime_error("thrown on purpose");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "sum");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", ddp::describe(error).c_str());
    return 3;
  }
}
