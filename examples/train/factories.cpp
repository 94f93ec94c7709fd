// SPDX-License-Identifier: MIT
#include "factories.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <vector>

#include "ddp/io/checkpoint_file.h"
#include "ddp/nn/named_buffers.h"
#include "ddp/samplers/distributed_sampler.h"
#include "ddp/samplers/exact_sampler.h"
#include "model_tensors.h"

namespace train {
namespace {

// "took 8 of the model's 10 tensors from a.safetensors; of another shape there: fc.weight,
// fc.bias".
std::string describe_partial_init(const std::filesystem::path& file, std::size_t tensors,
                                  const ddp::UnmatchedNames& names) {
  const std::size_t taken = tensors - names.missing.size() - names.mismatched.size();
  std::string text =
      fmt::format("took {} of the model's {} tensors from {}", taken, tensors, file.string());
  const auto add = [&](const char* what, const std::vector<std::string>& which) {
    if (!which.empty()) text += fmt::format("; {}: {}", what, fmt::join(which, ", "));
  };
  add("of another shape there", names.mismatched);
  add("missing there", names.missing);
  add("not in the model", names.unexpected);
  return text;
}

}  // namespace

std::unique_ptr<ddp::Sampler> make_sampler(const Options& options, const ddp::ProcessGroup& group,
                                           std::int64_t dataset_size) {
  const std::int64_t pass_batch = options.pass_batch(group.world_size());
  if (options.drop_last && dataset_size < pass_batch) {
    throw std::invalid_argument(
        fmt::format("--drop-last leaves no batch of {} of a training set of {} samples", pass_batch,
                    dataset_size));
  }
  if (options.sampler == SamplerKind::kExact) {
    return std::make_unique<ddp::ExactSampler>(
        ddp::ExactSamplerOptions{.dataset_size = dataset_size,
                                 .world_size = group.world_size(),
                                 .rank = group.rank(),
                                 .global_batch_size = pass_batch,
                                 .seed = options.seed});
  }
  if (pass_batch % group.world_size() != 0) {
    throw std::invalid_argument(fmt::format(
        "--sampler torch cannot cut a global batch of {} over {} ranks; --sampler exact can",
        pass_batch, group.world_size()));
  }
  return std::make_unique<ddp::DistributedSampler>(
      ddp::DistributedSamplerOptions{.dataset_size = dataset_size,
                                     .world_size = group.world_size(),
                                     .rank = group.rank(),
                                     .batch_size = pass_batch / group.world_size(),
                                     .seed = options.seed});
}

ddp::DataLoaderOptions loader_options(const Options& options, const Task& task,
                                      const ddp::ProcessGroup& group) {
  return {.dtype = task.input_dtype(options.dtype),
          .device = group.device(),
          .num_workers = options.num_workers};
}

ddp::DdpOptions engine_options(const Options& options, const ddp::ProcessGroup& group) {
  ddp::DdpOptions result;
  result.nominal_samples =
      static_cast<double>(options.pass_batch(group.world_size())) / group.world_size();
  // The report then shows the bandwidth. On CUDA that takes two events for each reduction.
  result.record_times = options.traces.any() || !group.device().is_cuda();
  result.buckets.bucket_bytes_cap = static_cast<std::size_t>(options.bucket_cap_mb * (1 << 20));
  if (options.compress == ddp::DType::kBFloat16) result.hook = ddp::compress_to_bfloat16;
  if (options.compress == ddp::DType::kFloat16) result.hook = ddp::compress_to_float16;
  result.non_finite = options.non_finite_gradients();
  result.scan_gradients = result.non_finite == ddp::NonFinite::kStop;  // to name the rank
  return result;
}

std::unique_ptr<ddp::nn::Module> make_module(const Options& options, ddp::nn::Context& context,
                                             const Task& task) {
  return task.make_model(options.model, {context, options.dtype, options.seed});
}

std::string load_initial_weights(const Options& options, const ddp::ProcessGroup& group,
                                 const ddp::nn::Context& context, ddp::nn::Module& module) {
  if (group.rank() != 0 || options.init.empty()) return "";
  const ddp::Safetensors loaded = load_model_tensors(options.init);
  const std::vector<ddp::NamedBuffer> tensors = ddp::nn::named_buffers(module.state_dict());
  const ddp::UnmatchedNames names =
      ddp::restore_tensors(options.init, loaded, tensors,
                           {.skip_unmatched = options.is_init_partial,
                            .skip_other_shapes = options.is_init_partial,
                            .cast = ddp::FloatCast::kExact,
                            .stream = context.stream()});
  return options.is_init_partial ? describe_partial_init(options.init, tensors.size(), names) : "";
}

}  // namespace train
