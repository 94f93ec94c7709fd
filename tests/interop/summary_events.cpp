// SPDX-License-Identifier: MIT
//
// Writes scalars into the directory that is its argument, and to stdout what a reader should find:
// TAG STEP VALUE, a line each.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "ddp/io/summary_writer.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ddp::SummaryWriter writer(argv[1]);
  const auto add = [&](const char* tag, std::int64_t step, double value) {
    writer.add_scalar(tag, value, step);
    std::printf("%s %lld %.9g\n", tag, static_cast<long long>(step),
                static_cast<double>(static_cast<float>(value)));
  };
  for (int step = 0; step < 200; ++step) add("Loss/train", step, std::exp(-0.01 * step));
  add("Accuracy/test", 300, 0.875);
  add(std::string(200, 'x').c_str(), 127, -1e-30);
  add("a_large_step", std::int64_t{1} << 40, 1e30);
  add("not_a_number", 1, std::numeric_limits<double>::quiet_NaN());
  return writer.failed() ? 1 : 0;
}
