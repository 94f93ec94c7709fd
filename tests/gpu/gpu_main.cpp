// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <iostream>

#include "catch_runner.h"
#include "ddp/cuda/cuda.h"
#include "gpu/case_log.h"

namespace {

using ddp::test::CaseLog;
CATCH_REGISTER_LISTENER(CaseLog)

constexpr int kSkipped = 77;  // CTest's SKIP_RETURN_CODE

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  const Catch::ConfigData& asked_for = session.configData();
  const bool runs_nothing = asked_for.showHelp || asked_for.listTests;
  if (!runs_nothing && ddp::cu::device_count() == 0) {
    std::cout << "SKIPPED: no GPU\n";
    return kSkipped;
  }
  // What ranks do together after one of them has failed says nothing.
  if (std::getenv("WORLD_SIZE") != nullptr) session.configData().abortAfter = 1;
  return session.run();
}
