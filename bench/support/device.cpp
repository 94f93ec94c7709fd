// SPDX-License-Identifier: MIT
#include "support/device.h"

#include <stdexcept>

#include "ddp/cuda/cuda.h"
#include "support/program.h"

namespace ddp::bench {

Device device_named(const std::string& name) {
  if (name == "cpu") return kCpuDevice;
  if (name != "cuda") throw std::invalid_argument("--device " + name + ": there are cpu and cuda");
  if (cu::device_count() == 0) throw Skipped("no GPU");
  return cuda_device(0);
}

std::vector<double> microseconds_on(Device device, Stream stream, const std::function<void()>& call,
                                    const DeviceSampling& sampling) {
  cu::Event begin(device, cu::EventTiming::kEnabled);
  cu::Event end(device, cu::EventTiming::kEnabled);
  const auto measure = [&] {
    begin.record(stream);
    for (int i = 0; i < sampling.calls; ++i) call();
    end.record(stream);
    end.synchronize();
    return 1e3 * static_cast<double>(end.milliseconds_since(begin)) / sampling.calls;
  };
  for (int i = 0; i < sampling.warm_up; ++i) static_cast<void>(measure());
  std::vector<double> samples;
  for (int i = 0; i < sampling.samples; ++i) samples.push_back(measure());
  return samples;
}

}  // namespace ddp::bench
