// SPDX-License-Identifier: MIT
//
// Convolutions with a cuDNN that is found and does not work: this program's is a fake.
#include <catch2/catch.hpp>

#include "ddp/kernels/conv2d.h"
#include "support/stderr_capture.h"

using Catch::Matchers::Contains;

TEST_CASE("a cuDNN that does not work is left out with a warning", "[conv2d]") {
  const ddp::test::StderrCapture captured;
  CHECK(ddp::cu::make_cudnn_conv2d(ddp::cuda_device(0)) == nullptr);
  CHECK_THAT(captured.text(), Contains("libcudnn.so.9 has no function cudnnCreate") &&
                                  Contains("columns and cuBLAS"));
}
