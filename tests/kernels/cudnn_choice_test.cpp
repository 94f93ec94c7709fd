// SPDX-License-Identifier: MIT
//
// Tests the choice of a convolution's algorithm and math type with a fake cuDNN. No GPU is needed.
#include "ddp/kernels/conv2d/cudnn_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

using namespace ddp;
using namespace ddp::cu;

namespace {

using Performance = cudnnConvolutionFwdAlgoPerf_t;
using MathTypes = std::vector<cudnnMathType_t>;

cudnnMathType_t current_math_type;  // of the descriptor

Performance algorithm(cudnnConvolutionFwdAlgo_t algo, cudnnMathType_t math_type,
                      cudnnDeterminism_t determinism = CUDNN_DETERMINISTIC) {
  Performance performance{};
  performance.algo = algo;
  performance.status = CUDNN_STATUS_SUCCESS;
  performance.determinism = determinism;
  performance.mathType = math_type;
  return performance;
}

constexpr auto kFirst = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
constexpr auto kSecond = CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
constexpr auto kWinograd = CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
constexpr std::size_t kScratchLimit = 1000;

struct Cudnn {
  Cudnn() {
    library.set_math_type = [](cudnnConvolutionDescriptor_t, cudnnMathType_t type) {
      current_math_type = type;
      return CUDNN_STATUS_SUCCESS;
    };
    library.error_string = [](cudnnStatus_t) { return "what cuDNN says"; };
    current_math_type = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;  // left by an earlier query
  }

  auto choose(DType dtype, Winograd winograd = Winograd::kAsFound,
              Float32Precision precision = Float32Precision::kIeee) {
    const auto find = [this](int capacity, int* count, Performance* found) {
      asked.push_back(current_math_type);
      if (!answers.contains(current_math_type)) return CUDNN_STATUS_NOT_SUPPORTED;
      const std::vector<Performance>& answer = answers.at(current_math_type);
      *count = std::min(capacity, static_cast<int>(answer.size()));
      std::copy_n(answer.begin(), *count, found);
      return CUDNN_STATUS_SUCCESS;
    };
    const auto measure = [this](cudnnConvolutionFwdAlgo_t algo, std::size_t* size_bytes) {
      measured.push_back(current_math_type);
      *size_bytes = algo == too_large ? kScratchLimit + 1 : 100;
      return CUDNN_STATUS_SUCCESS;
    };
    return choose_cudnn_algorithm<Performance>(
        library, nullptr, {dtype, precision, winograd, kScratchLimit}, "find", find, measure);
  }

  CudnnLibrary library;
  std::map<cudnnMathType_t, std::vector<Performance>> answers;  // by the math type of the query
  cudnnConvolutionFwdAlgo_t too_large = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  MathTypes asked, measured;
};

}  // namespace

TEST_CASE("cuDNN is asked with the dtype's math type, whatever the last call used", "[conv2d]") {
  const auto [dtype, math_type] = GENERATE(table<DType, cudnnMathType_t>({
      {DType::kFloat32, CUDNN_FMA_MATH},
      {DType::kFloat64, CUDNN_DEFAULT_MATH},
      {DType::kFloat16, CUDNN_TENSOR_OP_MATH},
      {DType::kBFloat16, CUDNN_TENSOR_OP_MATH},
  }));
  Cudnn cudnn;
  cudnn.answers[math_type] = {algorithm(kFirst, math_type)};
  const auto choice = cudnn.choose(dtype);
  REQUIRE(choice.has_value());
  CHECK(choice->algorithm == kFirst);
  CHECK(choice->math_type == math_type);
  CHECK(choice->scratch_bytes == 100);
  CHECK(cudnn.asked == MathTypes{math_type});
}

TEST_CASE("a 16-bit algorithm runs with the math type with which it was found", "[conv2d]") {
  Cudnn cudnn;
  cudnn.answers[CUDNN_TENSOR_OP_MATH] = {
      algorithm(kFirst, CUDNN_TENSOR_OP_MATH, CUDNN_NON_DETERMINISTIC),
      algorithm(kSecond, CUDNN_DEFAULT_MATH)};
  const auto choice = cudnn.choose(DType::kBFloat16);
  REQUIRE(choice.has_value());
  CHECK(choice->algorithm == kSecond);
  CHECK(choice->math_type == CUDNN_DEFAULT_MATH);
  CHECK(cudnn.measured == MathTypes{CUDNN_DEFAULT_MATH});
}

TEST_CASE("float32 may run on tensor cores only if TF32 is asked for", "[conv2d]") {
  Cudnn cudnn;
  cudnn.answers[CUDNN_TENSOR_OP_MATH] = {
      algorithm(kWinograd, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
      algorithm(kFirst, CUDNN_TENSOR_OP_MATH)};
  cudnn.answers[CUDNN_FMA_MATH] = {algorithm(kFirst, CUDNN_TENSOR_OP_MATH),
                                   algorithm(kSecond, CUDNN_FMA_MATH)};
  const auto exact = cudnn.choose(DType::kFloat32).value();
  CHECK(exact.algorithm == kSecond);
  CHECK(exact.math_type == CUDNN_FMA_MATH);
  const auto rounded =
      cudnn.choose(DType::kFloat32, Winograd::kAsFound, Float32Precision::kTf32).value();
  CHECK(rounded.algorithm == kFirst);
  CHECK(rounded.math_type == CUDNN_TENSOR_OP_MATH);
  CHECK(cudnn.asked == MathTypes{CUDNN_FMA_MATH, CUDNN_TENSOR_OP_MATH});
  CHECK(cudnn_math_types(DType::kFloat64, Float32Precision::kTf32) ==
        cudnn_math_types(DType::kFloat64, Float32Precision::kIeee));
}

TEST_CASE("a 16-bit convolution without an algorithm for tensor cores asks for another one",
          "[conv2d]") {
  Cudnn cudnn;
  if (GENERATE(true, false)) {
    cudnn.answers[CUDNN_TENSOR_OP_MATH] = {algorithm(kFirst, CUDNN_TENSOR_OP_MATH)};
    cudnn.too_large = kFirst;
  }
  cudnn.answers[CUDNN_DEFAULT_MATH] = {algorithm(kSecond, CUDNN_DEFAULT_MATH)};
  const auto choice = cudnn.choose(DType::kFloat16);
  REQUIRE(choice.has_value());
  CHECK(choice->algorithm == kSecond);
  CHECK(cudnn.asked == MathTypes{CUDNN_TENSOR_OP_MATH, CUDNN_DEFAULT_MATH});
}

TEST_CASE("Winograd's algorithm is chosen where it is fast, and never where it is inaccurate",
          "[conv2d]") {
  Cudnn cudnn;
  cudnn.answers[CUDNN_FMA_MATH] = {algorithm(kFirst, CUDNN_FMA_MATH),
                                   algorithm(kWinograd, CUDNN_FMA_MATH),
                                   algorithm(kSecond, CUDNN_FMA_MATH)};
  const auto chosen = [&](Winograd winograd) {
    return cudnn.choose(DType::kFloat32, winograd).value().algorithm;
  };
  CHECK(chosen(Winograd::kFirst) == kWinograd);
  CHECK(chosen(Winograd::kAsFound) == kFirst);
  cudnn.too_large = kFirst;
  CHECK(chosen(Winograd::kAsFound) == kWinograd);
  CHECK(chosen(Winograd::kNever) == kSecond);
  cudnn.too_large = kWinograd;
  CHECK(chosen(Winograd::kFirst) == kFirst);

  Conv2dShape shape{8, 64, 32, {9, 9}, {3, 3}};
  const auto rank = [&shape](DType dtype, Float32Precision precision = Float32Precision::kIeee) {
    return winograd_for(shape, dtype, precision);
  };
  CHECK(rank(DType::kFloat32) == Winograd::kFirst);
  CHECK(rank(DType::kFloat32, Float32Precision::kTf32) == Winograd::kAsFound);
  CHECK(rank(DType::kBFloat16) == Winograd::kAsFound);
  shape.groups = 4;
  CHECK(rank(DType::kFloat32) == Winograd::kAsFound);
  shape.kernel = {5, 5};
  CHECK(rank(DType::kFloat32) == Winograd::kNever);
  CHECK(rank(DType::kFloat32, Float32Precision::kTf32) == Winograd::kNever);
}

TEST_CASE("float32 operands are never rounded to fewer bits", "[conv2d]") {
  Cudnn cudnn;
  cudnn.answers[CUDNN_FMA_MATH] = {algorithm(kFirst, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
                                   algorithm(kSecond, CUDNN_DEFAULT_MATH)};  // permits TF32
  const auto choice = cudnn.choose(DType::kFloat32);
  REQUIRE(choice.has_value());
  CHECK(choice->algorithm == kSecond);
  CHECK(choice->math_type == CUDNN_FMA_MATH);
}

TEST_CASE("float64 keeps the math type that it was found with, and is never converted",
          "[conv2d]") {
  Cudnn cudnn;
  const auto asked = GENERATE(CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH);
  const auto found = GENERATE(CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH, CUDNN_TENSOR_OP_MATH);
  cudnn.answers[asked] = {algorithm(kFirst, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
                          algorithm(kSecond, found)};
  const auto choice = cudnn.choose(DType::kFloat64);
  REQUIRE(choice.has_value());
  CHECK(choice->algorithm == kSecond);
  CHECK(choice->math_type == found);
}

TEST_CASE("nothing is chosen if no algorithm is deterministic", "[conv2d]") {
  Cudnn cudnn;
  cudnn.answers[CUDNN_DEFAULT_MATH] = {
      algorithm(kFirst, CUDNN_DEFAULT_MATH, CUDNN_NON_DETERMINISTIC)};
  CHECK_FALSE(cudnn.choose(DType::kBFloat16).has_value());
  CHECK_FALSE(cudnn.choose(DType::kFloat32).has_value());
}
