// SPDX-License-Identifier: MIT
#include "step/options.h"

#include <stdexcept>

#include "support/command_line.h"
#include "support/device.h"

namespace ddp::bench {
namespace {

DType dtype_named(const std::string& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float64") return DType::kFloat64;
  throw std::invalid_argument("--dtype " + name + ": only float32 and float64 can be trained");
}

std::optional<DType> amp_named(const std::string& name) {
  if (name == "none") return std::nullopt;
  if (name == "bf16") return DType::kBFloat16;
  throw std::invalid_argument("--amp " + name + ": the types are none and bf16");
}

std::vector<Backend> backends_named(const std::vector<std::string>& names) {
  std::vector<Backend> backends;
  for (const std::string& name : names) backends.push_back(parse_backend(name));
  return backends;
}

}  // namespace

std::optional<StepBenchOptions> parse_step_bench_options(int argc, char** argv) {
  StepBenchOptions options;
  std::string device = "cpu", amp = "none", dtype = "float32";
  std::vector<std::string> backends = {"auto"};
  bool rounds_to_tf32 = false;
  CommandLine line("bench_step",
                   "Milliseconds of a training step. Alone or, under ddp-launch, with several "
                   "ranks.");
  line.add("device", "cpu, or cuda, which prints a line of JSON a figure", device);
  line.add("models", "models of the factory", options.models);
  line.add("backends", "several are compared, each with the first", backends);
  line.add("min-buckets", "BucketOptions::min_buckets", options.min_buckets);
  line.add("bucket-mib",
           "MiB of the largest bucket, with BucketOptions::parts = 1; 0: the defaults",
           options.bucket_mib);
  line.add("rounds", "interleaved repeats", options.rounds);
  line.add("steps", "steps timed together", options.steps);
  line.add("batch-size", "samples a step", options.batch);
  line.add("image-size", "height and width of images; 0: the model's own", options.image_size);
  line.add("amp", "mixed precision: none or bf16", amp);
  line.add("dtype", "float32 or float64", dtype);
  line.add("tf32", "GPUs may round float32 to TF32", rounds_to_tf32);
  if (!line.parse(argc, argv)) return std::nullopt;
  options.on_gpus = device_named(device).is_cuda();
  options.backends = backends_named(backends);
  options.dtype = dtype_named(dtype);
  options.amp = amp_named(amp);
  if (rounds_to_tf32) options.float32_precision = Float32Precision::kTf32;
  return options;
}

}  // namespace ddp::bench
