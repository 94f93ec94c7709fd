// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <iostream>

#include "catch_runner.h"
#include "support/child_process.h"

namespace {

constexpr int kSkipped = 77;  // CTest's SKIP_RETURN_CODE

bool has_torch() {
  if (::access(DDP_TORCHRUN, X_OK) != 0) return false;
  ddp::test::ChildProcess python({DDP_PYTHON, "-c", "import torch.distributed"});
  return python.wait(std::chrono::seconds(60)) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (!has_torch()) {
    std::cout << "SKIPPED: no PyTorch (package python3-torch)\n";
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
