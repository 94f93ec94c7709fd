// SPDX-License-Identifier: MIT
#include "support/random_tensor.h"

#include <algorithm>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp::bench {

nn::Tensor random_tensor(nn::Context& context, const nn::Shape& shape, DType dtype) {
  const std::size_t count = shape.count();
  std::vector<float> draws(std::min(count, std::size_t{1} << 20));
  for (std::size_t i = 0; i < draws.size(); ++i) {
    draws[i] = static_cast<float>(2 * ddp::random_unit(0, 3, i) - 1);
  }
  const nn::Tensor first = context.from_host<float>(draws, {draws.size()});
  const nn::Tensor result = context.empty(shape, dtype);
  for (std::size_t done = 0; done < count; done += draws.size()) {
    const std::size_t part = std::min(draws.size(), count - done);
    cast(first.buffer().slice(0, part), result.buffer().slice(done, part), context.stream());
  }
  context.synchronize();
  return result;
}

}  // namespace ddp::bench
