// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/cuda/cuda.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/cudnn_choice.h"
#include "ddp/kernels/conv2d/cudnn_library.h"
#include "ddp/kernels/detail/gemm_checks.h"
#include "ddp/kernels/detail/owned_handle.h"

namespace ddp::cu {
namespace {

#define DDP_CUDNN_CHECK(library, call, ...) (library).check((library).call(__VA_ARGS__), #call)

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

// cuDNN 9 describes no tensor of 2^31 elements or more.
bool is_describable(const Conv2dShape& shape) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  return std::max(shape.x_count(), shape.y_count()) <= kMost;
}

// The descriptors of one convolution, and the algorithms chosen for it when it was first asked for:
// none if it is not describable.
struct Plan {
  Plan(const CudnnLibrary& library, const Conv2dShape& of, DType type)
      : shape(of),
        dtype(type),
        x(make(library, library.create_tensor, library.destroy_tensor)),
        y(make(library, library.create_tensor, library.destroy_tensor)),
        weight(make(library, library.create_filter, library.destroy_filter)),
        convolution(make(library, library.create_convolution, library.destroy_convolution)) {
    if (!is_describable(shape)) return;
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
  }

  Conv2dShape shape;
  DType dtype;
  Owned<cudnnTensorDescriptor_t> x, y;
  Owned<cudnnFilterDescriptor_t> weight;
  Owned<cudnnConvolutionDescriptor_t> convolution;
  std::optional<CudnnChoice<cudnnConvolutionFwdAlgo_t>> forward;
  std::optional<CudnnChoice<cudnnConvolutionBwdDataAlgo_t>> grad_input;
  std::optional<CudnnChoice<cudnnConvolutionBwdFilterAlgo_t>> grad_weight;
};

// A math type is the convolution descriptor's, which a plan's three algorithms share.
template <class Algorithm>
const CudnnChoice<Algorithm>& prepare(const CudnnLibrary& library, const Plan& plan,
                                      const std::optional<CudnnChoice<Algorithm>>& choice) {
  DDP_CUDNN_CHECK(library, set_math_type, plan.convolution.get(), choice->math_type);
  return *choice;
}

void warn_of_missing(const Plan& plan) {
  const std::string reason = is_describable(plan.shape)
                                 ? "has no algorithm that gives the same bits each time for a "
                                 : "takes no tensors of 2^31 elements, and so no ";
  const auto text = [](const Size2d& size) {
    return std::to_string(size.height) + " x " + std::to_string(size.width);
  };
  logging::warning("[kernels] cuDNN " + reason + std::string(to_string(plan.dtype)) +
                   " convolution of " + std::to_string(plan.shape.batch) + " inputs of " +
                   std::to_string(plan.shape.in_channels) + " x " + text(plan.shape.input) +
                   " with a kernel of " + text(plan.shape.kernel) + ": " +
                   (size_of(plan.dtype) == 2 ? "it is computed in float32 from copies"
                                             : "columns and cuBLAS compute it") +
                   ", which is slower");
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
  CudnnConv2d(const CudnnLibrary& library, Device device, Float32Precision precision)
      : library_(library),
        device_(device),
        precision_(precision),
        handle_(make_handle(library, device)),
        scratch_limit_bytes_(device_memory_bytes(device) / 32) {}
  // cuDNN, like cuBLAS, wants the handle's device to be the current one from its creation to its
  // end.
  ~CudnnConv2d() override {
    try {
      const DeviceGuard guard(device_);
      handle_.reset();
    } catch (const CudaError&) {
      // The device is lost. The handle is destroyed all the same, like every member.
    }
  }
  CudnnConv2d(const CudnnConv2d&) = delete;
  CudnnConv2d& operator=(const CudnnConv2d&) = delete;

  [[nodiscard]] bool takes(DType dtype, const Conv2dShape& shape) override {
    if (size_of(dtype) != 2 || shape.x_count() == 0 || shape.y_count() == 0) return true;
    const DeviceGuard guard(device_);
    const Plan& plan = plan_for(shape, dtype);
    return plan.forward && plan.grad_input && plan.grad_weight;
  }

  void forward(const Buffer& x, const Buffer& weight, const Buffer& y, const Conv2dShape& shape,
               Stream stream) override {
    const Plan& plan = plan_for(shape, x.dtype);
    if (!plan.forward) return columns().forward(x, weight, y, shape, stream);
    const auto& choice = prepare(library_, plan, plan.forward);
    const Factors factors(x.dtype, WriteMode::kOverwrite);
    put_on(stream);
    DDP_CUDNN_CHECK(library_, forward, handle_.get(), factors.alpha(), plan.x.get(), x.data,
                    plan.weight.get(), weight.data, plan.convolution.get(), choice.algorithm,
                    scratch(choice.scratch_bytes), choice.scratch_bytes, factors.beta(),
                    plan.y.get(), y.data);
  }

  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape, Stream stream) override {
    const Plan& plan = plan_for(shape, weight.dtype);
    if (!plan.grad_input) return columns().grad_input(weight, grad_y, grad_x, shape, stream);
    const auto& choice = prepare(library_, plan, plan.grad_input);
    const Factors factors(weight.dtype, grad_x.mode);
    put_on(stream);
    DDP_CUDNN_CHECK(library_, backward_data, handle_.get(), factors.alpha(), plan.weight.get(),
                    weight.data, plan.y.get(), grad_y.data, plan.convolution.get(),
                    choice.algorithm, scratch(choice.scratch_bytes), choice.scratch_bytes,
                    factors.beta(), plan.x.get(), grad_x.buffer.data);
  }

  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape, Stream stream) override {
    const Plan& plan = plan_for(shape, x.dtype);
    if (!plan.grad_weight) return columns().grad_weight(x, grad_y, grad_weight, shape, stream);
    const auto& choice = prepare(library_, plan, plan.grad_weight);
    const Factors factors(x.dtype, grad_weight.mode);
    put_on(stream);
    DDP_CUDNN_CHECK(library_, backward_filter, handle_.get(), factors.alpha(), plan.x.get(), x.data,
                    plan.y.get(), grad_y.data, plan.convolution.get(), choice.algorithm,
                    scratch(choice.scratch_bytes), choice.scratch_bytes, factors.beta(),
                    plan.weight.get(), grad_weight.buffer.data);
  }

 private:
  static Owned<cudnnHandle_t> make_handle(const CudnnLibrary& library, Device device) {
    const DeviceGuard guard(device);
    return make(library, library.create, library.destroy);
  }

  void put_on(Stream stream) {
    DDP_CUDNN_CHECK(library_, set_stream, handle_.get(), stream.native);
  }

  // A model has a few dozen convolutions, and two batch sizes; more come from images of many sizes.
  static constexpr std::size_t kMaxPlans = 1024;
  const Plan& plan_for(const Conv2dShape& shape, DType dtype) {
    const auto known = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) {
      return plan.shape == shape && plan.dtype == dtype;
    });
    if (known != plans_.end()) return *known;
    if (plans_.size() == kMaxPlans) plans_.clear();
    Plan plan(library_, shape, dtype);
    choose_algorithms(plan);
    return plans_.emplace_back(std::move(plan));
  }

  // The descriptors are those of `find` and `measure`, in cuDNN's order.
  template <class Performance, class Find, class Measure, class... Descriptors>
  auto choose(const Plan& plan, const char* name, Find find, Measure measure,
              Descriptors... descriptors) {
    const CudnnRequest request{plan.dtype, precision_,
                               winograd_for(plan.shape, plan.dtype, precision_),
                               scratch_limit_bytes_};
    return choose_cudnn_algorithm<Performance>(library_, plan.convolution.get(), request, name,
                                               bound(find, handle_.get(), descriptors...),
                                               bound(measure, handle_.get(), descriptors...));
  }

  void choose_algorithms(Plan& plan) {
    if (!is_describable(plan.shape)) return warn_of_missing(plan);
    const auto x = plan.x.get(), y = plan.y.get();
    const auto weight = plan.weight.get();
    const auto convolution = plan.convolution.get();
    plan.forward =
        choose<cudnnConvolutionFwdAlgoPerf_t>(plan, "find_forward", library_.find_forward,
                                              library_.forward_scratch, x, weight, convolution, y);
    plan.grad_input = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        plan, "find_backward_data", library_.find_backward_data, library_.backward_data_scratch,
        weight, y, convolution, x);
    plan.grad_weight = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
        plan, "find_backward_filter", library_.find_backward_filter,
        library_.backward_filter_scratch, x, y, convolution, weight);
    if (!plan.forward || !plan.grad_input || !plan.grad_weight) warn_of_missing(plan);
  }

  // For float32 and float64, which must work without a suitable algorithm of cuDNN, too.
  Conv2dBackend& columns() {
    if (!columns_) columns_ = make_gemm_conv2d(device_, blas_.emplace(device_, precision_));
    return *columns_;
  }

  // Used by one stream, so what is enqueued later runs later; freeing waits for the device.
  void* scratch(std::size_t size_bytes) {
    if (scratch_.size_bytes() < size_bytes) scratch_ = allocate_device(size_bytes, device_);
    return scratch_.data();
  }

  CudnnLibrary library_;
  Device device_;
  Float32Precision precision_;
  Owned<cudnnHandle_t> handle_;
  std::size_t scratch_limit_bytes_;
  std::vector<Plan> plans_;
  Allocation scratch_;
  std::optional<Blas> blas_;  // of columns_
  std::unique_ptr<Conv2dBackend> columns_;
};

}  // namespace

// cuDNN may be found and not work: parts of it are missing, or it no longer knows an old GPU.
std::unique_ptr<Conv2dBackend> make_cudnn_conv2d(Device device, Float32Precision precision) try {
  CudnnLibrary library;
  if (!library.open()) return nullptr;
  return std::make_unique<CudnnConv2d>(library, device, precision);
} catch (const Error& error) {
  logging::warning(
      "[kernels] cuDNN does not work here, so columns and cuBLAS compute convolutions, "
      "which is slower: " +
      describe(error));
  return nullptr;
}

}  // namespace ddp::cu
