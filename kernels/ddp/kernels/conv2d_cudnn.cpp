// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/detail/cudnn_library.h"
#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/detail/owned_handle.h"

namespace ddp::cu {
namespace {

#define DDP_CUDNN_CHECK(library, call, ...) (library).check((library).call(__VA_ARGS__), #call)

constexpr std::size_t kScratchLimitBytes = std::size_t{256} << 20;

template <class Handle>
using Owned = detail::OwnedHandle<Handle, cudnnStatus_t>;

template <class Handle>
Owned<Handle> make(const CudnnLibrary& library, cudnnStatus_t (*create)(Handle*),
                   cudnnStatus_t (*destroy)(Handle)) {
  Handle handle = nullptr;
  library.check(create(&handle), "create");
  return {handle, destroy};
}

int as_int(std::size_t size) { return detail::blas_int(size); }

template <class Algorithm>
struct Choice {
  Algorithm algorithm;
  cudnnMathType_t math_type;
  std::size_t scratch_bytes;
};

cudnnDataType_t to_cudnn(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      detail::refuse_dtype("conv2d", dtype);
  }
}

// Of sums.
cudnnDataType_t compute_type(DType dtype) {
  return dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// Tensor cores for 16-bit operands; the default would round float32 ones to TF32.
cudnnMathType_t math_type(DType dtype) {
  return size_of(dtype) == 2 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
}

// The descriptors of one convolution, and the algorithms chosen for it when it first ran.
struct Plan {
  Plan(const CudnnLibrary& library, const Conv2dShape& of, DType type)
      : shape(of),
        dtype(type),
        x(make(library, library.create_tensor, library.destroy_tensor)),
        y(make(library, library.create_tensor, library.destroy_tensor)),
        weight(make(library, library.create_filter, library.destroy_filter)),
        convolution(make(library, library.create_convolution, library.destroy_convolution)) {
    const cudnnDataType_t data_type = to_cudnn(dtype);
    const int batch = as_int(shape.batch), in = as_int(shape.in_channels);
    const int out = as_int(shape.out_channels);
    const Size2d output = shape.output();
    DDP_CUDNN_CHECK(library, set_tensor, x.get(), CUDNN_TENSOR_NCHW, data_type, batch, in,
                    as_int(shape.input.height), as_int(shape.input.width));
    DDP_CUDNN_CHECK(library, set_tensor, y.get(), CUDNN_TENSOR_NCHW, data_type, batch, out,
                    as_int(output.height), as_int(output.width));
    DDP_CUDNN_CHECK(library, set_filter, weight.get(), data_type, CUDNN_TENSOR_NCHW, out,
                    in / as_int(shape.groups), as_int(shape.kernel.height),
                    as_int(shape.kernel.width));
    DDP_CUDNN_CHECK(library, set_convolution, convolution.get(), as_int(shape.padding.height),
                    as_int(shape.padding.width), as_int(shape.stride.height),
                    as_int(shape.stride.width), 1, 1, CUDNN_CROSS_CORRELATION, compute_type(dtype));
    DDP_CUDNN_CHECK(library, set_group_count, convolution.get(), as_int(shape.groups));
    DDP_CUDNN_CHECK(library, set_math_type, convolution.get(), math_type(dtype));
  }

  Conv2dShape shape;
  DType dtype;
  Owned<cudnnTensorDescriptor_t> x, y;
  Owned<cudnnFilterDescriptor_t> weight;
  Owned<cudnnConvolutionDescriptor_t> convolution;
  std::optional<Choice<cudnnConvolutionFwdAlgo_t>> forward;
  std::optional<Choice<cudnnConvolutionBwdDataAlgo_t>> grad_input;
  std::optional<Choice<cudnnConvolutionBwdFilterAlgo_t>> grad_weight;
};

// For 16-bit operands an algorithm goes with the math type that it was found with. For others that
// must not round more than we allow, and the convolution keeps ours.
bool accepts(const Plan& plan, cudnnMathType_t found) {
  return size_of(plan.dtype) == 2 || found == CUDNN_FMA_MATH || found == CUDNN_DEFAULT_MATH;
}

// The fastest algorithm, in cuDNN's opinion, that always gives the same bits. `find` is one of its
// three functions with all arguments but the last three; `measure` tells what memory an algorithm
// needs, because what was found may need another amount with the convolution's math type.
template <class Performance, class Find, class Measure>
auto choose(const CudnnLibrary& library, const Plan& plan, const char* name, const Find& find,
            const Measure& measure) {
  std::array<Performance, 16> found{};
  int count = 0;
  library.check(find(static_cast<int>(found.size()), &count, found.data()), name);
  for (int i = 0; i < count; ++i) {
    const auto& [algorithm, status, time, memory, determinism, found_math, reserved] = found.at(i);
    if (status != CUDNN_STATUS_SUCCESS || determinism != CUDNN_DETERMINISTIC) continue;
    if (!accepts(plan, found_math)) continue;
    const cudnnMathType_t math = size_of(plan.dtype) == 2 ? found_math : math_type(plan.dtype);
    DDP_CUDNN_CHECK(library, set_math_type, plan.convolution.get(), math);
    std::size_t scratch_bytes = 0;
    const bool fits = measure(algorithm, &scratch_bytes) == CUDNN_STATUS_SUCCESS &&
                      scratch_bytes <= kScratchLimitBytes;
    if (!fits) continue;
    return Choice<std::remove_const_t<decltype(algorithm)>>{algorithm, math, scratch_bytes};
  }
  throw CudaError(std::string("[kernels] cuDNN: ") + name + ": none of " + std::to_string(count) +
                  " algorithms is deterministic and fits");
}

// `function` with its first arguments given.
template <class Function, class... First>
auto bound(Function function, First... first) {
  return [=](auto... rest) { return function(first..., rest...); };
}

// One and beta in the type that cuDNN wants for the operands' dtype.
struct Factors {
  Factors(DType dtype, WriteMode mode) : is_single(dtype != DType::kFloat64) {
    const double value = mode == WriteMode::kAccumulate ? 1 : 0;
    beta_single = static_cast<float>(value);
    beta_exact = value;
  }
  [[nodiscard]] const void* alpha() const { return pick(&one_single, &one_exact); }
  [[nodiscard]] const void* beta() const { return pick(&beta_single, &beta_exact); }
  [[nodiscard]] const void* pick(const float* single, const double* exact) const {
    return is_single ? static_cast<const void*>(single) : exact;
  }

  bool is_single;
  float one_single = 1, beta_single = 0;
  double one_exact = 1, beta_exact = 0;
};

class CudnnConv2d final : public Conv2dBackend {
 public:
  CudnnConv2d(const CudnnLibrary& library, Device device)
      : library_(library), device_(device), handle_(make_handle(library, device)) {}

  [[nodiscard]] bool takes_16_bit_types() const override { return true; }

  void forward(const Buffer& x, const Buffer& weight, const Buffer& y, const Conv2dShape& shape,
               Stream stream) override {
    Plan& plan = plan_for(shape, x.dtype, stream);
    if (!plan.forward) {
      const auto with = [&](auto function) {
        return bound(function, handle_.get(), plan.x.get(), plan.weight.get(),
                     plan.convolution.get(), plan.y.get());
      };
      plan.forward = choose<cudnnConvolutionFwdAlgoPerf_t>(library_, plan, "find_forward",
                                                           with(library_.find_forward),
                                                           with(library_.forward_scratch));
    }
    use(plan, plan.forward->math_type);
    const Factors factors(x.dtype, WriteMode::kOverwrite);
    DDP_CUDNN_CHECK(library_, forward, handle_.get(), factors.alpha(), plan.x.get(), x.data,
                    plan.weight.get(), weight.data, plan.convolution.get(), plan.forward->algorithm,
                    scratch(plan.forward->scratch_bytes), plan.forward->scratch_bytes,
                    factors.beta(), plan.y.get(), y.data);
  }

  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape, Stream stream) override {
    Plan& plan = plan_for(shape, weight.dtype, stream);
    if (!plan.grad_input) {
      const auto with = [&](auto function) {
        return bound(function, handle_.get(), plan.weight.get(), plan.y.get(),
                     plan.convolution.get(), plan.x.get());
      };
      plan.grad_input = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          library_, plan, "find_backward_data", with(library_.find_backward_data),
          with(library_.backward_data_scratch));
    }
    use(plan, plan.grad_input->math_type);
    const Factors factors(weight.dtype, grad_x.mode);
    DDP_CUDNN_CHECK(library_, backward_data, handle_.get(), factors.alpha(), plan.weight.get(),
                    weight.data, plan.y.get(), grad_y.data, plan.convolution.get(),
                    plan.grad_input->algorithm, scratch(plan.grad_input->scratch_bytes),
                    plan.grad_input->scratch_bytes, factors.beta(), plan.x.get(),
                    grad_x.buffer.data);
  }

  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape, Stream stream) override {
    Plan& plan = plan_for(shape, x.dtype, stream);
    if (!plan.grad_weight) {
      const auto with = [&](auto function) {
        return bound(function, handle_.get(), plan.x.get(), plan.y.get(), plan.convolution.get(),
                     plan.weight.get());
      };
      plan.grad_weight = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          library_, plan, "find_backward_filter", with(library_.find_backward_filter),
          with(library_.backward_filter_scratch));
    }
    use(plan, plan.grad_weight->math_type);
    const Factors factors(x.dtype, grad_weight.mode);
    DDP_CUDNN_CHECK(library_, backward_filter, handle_.get(), factors.alpha(), plan.x.get(), x.data,
                    plan.y.get(), grad_y.data, plan.convolution.get(), plan.grad_weight->algorithm,
                    scratch(plan.grad_weight->scratch_bytes), plan.grad_weight->scratch_bytes,
                    factors.beta(), plan.weight.get(), grad_weight.buffer.data);
  }

 private:
  static Owned<cudnnHandle_t> make_handle(const CudnnLibrary& library, Device device) {
    const DeviceGuard guard(device);
    return make(library, library.create, library.destroy);
  }

  // A model has few convolutions, and two batch sizes: the last batch of an epoch may be smaller.
  Plan& plan_for(const Conv2dShape& shape, DType dtype, Stream stream) {
    DDP_CUDNN_CHECK(library_, set_stream, handle_.get(), static_cast<cudaStream_t>(stream.native));
    const auto known = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) {
      return plan.shape == shape && plan.dtype == dtype;
    });
    return known != plans_.end() ? *known : plans_.emplace_back(library_, shape, dtype);
  }

  // A plan's three algorithms share a convolution descriptor, but not always a math type.
  void use(const Plan& plan, cudnnMathType_t math) {
    DDP_CUDNN_CHECK(library_, set_math_type, plan.convolution.get(), math);
  }

  // Used by one stream, so what is enqueued later runs later; freeing waits for the device.
  void* scratch(std::size_t size_bytes) {
    if (scratch_.size_bytes() < size_bytes) scratch_ = allocate_device(size_bytes, device_);
    return scratch_.data();
  }

  CudnnLibrary library_;
  Device device_;
  Owned<cudnnHandle_t> handle_;
  std::vector<Plan> plans_;
  Allocation scratch_;
};

}  // namespace

std::unique_ptr<Conv2dBackend> make_cudnn_conv2d(Device device) {
  CudnnLibrary library;
  if (!library.open()) return nullptr;
  return std::make_unique<CudnnConv2d>(library, device);
}

}  // namespace ddp::cu
