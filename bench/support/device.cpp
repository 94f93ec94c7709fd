// SPDX-License-Identifier: MIT
#include "support/device.h"

#include <chrono>
#include <memory>
#include <stdexcept>

#include "ddp/cuda/cuda.h"
#include "support/program.h"

namespace ddp::bench {

Device device_named(const std::string& name) {
  if (name == "cpu") return kCpuDevice;
  if (name != "cuda") {
    throw std::invalid_argument("--device " + name + ": the devices are cpu and cuda");
  }
  const cu::DeviceSurvey survey = cu::survey_devices();
  if (survey.count == 0) throw Skipped("no GPU: " + survey.why_none);
  return cuda_device(0);
}

namespace {

// Runs `calls` between two time marks, and returns the microseconds between them.
using Stopwatch = std::function<double(const std::function<void()>& calls)>;

Stopwatch stopwatch_on(Device device, Stream stream) {
  if (!device.is_cuda()) {
    return [](const auto& calls) { return duration_of<std::chrono::microseconds>(calls); };
  }
  const auto begin = std::make_shared<cu::Event>(device, cu::EventTiming::kEnabled);
  const auto end = std::make_shared<cu::Event>(device, cu::EventTiming::kEnabled);
  return [=](const auto& calls) {
    begin->record(stream);
    calls();
    end->record(stream);
    end->synchronize();
    return 1e3 * static_cast<double>(end->milliseconds_since(*begin));
  };
}

}  // namespace

std::vector<double> microseconds_on(Device device, Stream stream, const std::function<void()>& call,
                                    const DeviceSampling& sampling) {
  const Stopwatch stopwatch = stopwatch_on(device, stream);
  const auto measure = [&] {
    return stopwatch([&] {
             for (int i = 0; i < sampling.calls; ++i) call();
           }) /
           sampling.calls;
  };
  for (int i = 0; i < sampling.warm_up; ++i) static_cast<void>(measure());
  std::vector<double> samples;
  for (int i = 0; i < sampling.samples; ++i) samples.push_back(measure());
  return samples;
}

}  // namespace ddp::bench
