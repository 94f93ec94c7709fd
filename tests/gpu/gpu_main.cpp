// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "catch_runner.h"
#include "ddp/cuda/cuda.h"
#include "gpu/abandoned_threads.h"
#include "gpu/case_log.h"

namespace {

using ddp::test::CaseLog;
CATCH_REGISTER_LISTENER(CaseLog)

// A function of the address sanitizer; null in programs without it.
extern "C" [[gnu::weak]] void __lsan_do_leak_check();

constexpr int kSkipped = 77;  // CTest's SKIP_RETURN_CODE

int run(int argc, char** argv) {
  Catch::Session session;
  if (const int error = session.applyCommandLine(argc, argv); error != 0) return error;
  const Catch::ConfigData& asked_for = session.configData();
  const bool runs_nothing = asked_for.showHelp || asked_for.listTests;
  if (runs_nothing) return session.run();
  const ddp::cu::DeviceSurvey survey = ddp::cu::survey_devices();
  if (survey.count == 0) {
    std::cout << "SKIPPED: no GPU: " << survey.why_none << '\n';
    return kSkipped;
  }
  // After the first failure on one rank, the results of collectives on all ranks are meaningless.
  if (std::getenv("WORLD_SIZE") != nullptr) session.configData().abortAfter = 1;
  return session.run();
}

}  // namespace

// Replaces exit(), of whose work only flushing the output and the leak check matter here.
int main(int argc, char** argv) {
  const int result = run(argc, argv);
  if (!ddp::test::has_abandoned_threads) return result;
  std::cout.flush();
  std::fflush(nullptr);
  if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
  std::_Exit(result);
}
