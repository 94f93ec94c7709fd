// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>

#include "ddp/kernels/detail/grad_norm_checks.h"
#include "ddp/kernels/grad_norm.h"

namespace ddp {

std::size_t grad_norm_partials(std::span<const Buffer> grads) {
  std::size_t partials = 0;
  for (const Buffer& grad : grads) partials += detail::chunks_of(grad.count);
  return partials;
}

}  // namespace ddp

namespace ddp::cpu {
namespace {

// Sums in partial sums that the compiler keeps in vectors.
template <class T>
double sum_of_squares(const T* values, std::size_t count) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (std::size_t l = 0; l < sums.size(); ++l) {
      const double value = values[i + l];
      sums[l] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

void clip_grad_norm(std::span<const Buffer> grads, double max_norm, const double* grad_scale,
                    const ClippedGradients& result) {
  detail::check_clip_grad_norm(grads, max_norm, result);
  double* partial = result.partials.as<double>().data();
  for (const Buffer& grad : grads) {
    detail::dispatch_float("clip_grad_norm", grad.dtype, [&](auto element) {
      using T = decltype(element);
      for (std::size_t begin = 0; begin < grad.count; begin += detail::kChunkElements) {
        *partial++ = sum_of_squares(static_cast<const T*>(grad.data) + begin,
                                    std::min(detail::kChunkElements, grad.count - begin));
      }
    });
  }
  double sum = 0;
  for (const double part : result.partials.as<double>()) sum += part;
  const double scale = grad_scale == nullptr ? 1 : *grad_scale;
  const double norm = std::abs(scale) * std::sqrt(sum);
  result.norm.as<double>()[0] = norm;
  // Not std::min, which would turn NaN into 1.
  const double factor = max_norm / (norm + detail::kNormEpsilon);
  result.scale.as<double>()[0] = factor > 1 ? scale : scale * factor;
}

}  // namespace ddp::cpu
