// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/device_choice.h"

#include <stdexcept>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/log.h"

namespace ddp {
namespace {

bool is_cpu_backend(Backend backend) {
  return backend != Backend::kAuto && backend != Backend::kNccl;
}

void check_consistent(const InitOptions& options) {
  if (options.device == DeviceChoice::kCpu && options.backend == Backend::kNccl) {
    throw std::invalid_argument("backend nccl does not work on the CPU");
  }
  if (options.device == DeviceChoice::kCuda && is_cpu_backend(options.backend)) {
    throw std::invalid_argument("backend " + std::string(to_string(options.backend)) +
                                " does not work on CUDA devices");
  }
}

bool wants_cpu(const InitOptions& options) {
  return options.device == DeviceChoice::kCpu || is_cpu_backend(options.backend);
}

bool wants_cuda(const InitOptions& options) {
  return options.device == DeviceChoice::kCuda || options.backend == Backend::kNccl;
}

Device fall_to_cpu(const WorkerEnv& env, const cu::DeviceSurvey& survey) {
  if (env.rank == 0 && survey.is_fault) {
    logging::warning("[init] this process runs on the CPU, since CUDA does not work here: " +
                     survey.why_none);
  } else if (env.rank == 0) {
    logging::info("[init] this process runs on the CPU: " + survey.why_none);
  }
  return kCpuDevice;
}

}  // namespace

Device choose_device(const InitOptions& options, const WorkerEnv& env) {
  check_consistent(options);
  return wants_cpu(options) ? kCpuDevice : choose_device(options, env, cu::survey_devices());
}

Device choose_device(const InitOptions& options, const WorkerEnv& env,
                     const cu::DeviceSurvey& survey) {
  check_consistent(options);
  if (wants_cpu(options)) return kCpuDevice;
  const int visible = survey.count;
  if (visible == 0 && !wants_cuda(options)) return fall_to_cpu(env, survey);
  if (visible == 0) {
    throw EnvironmentError("no GPU is visible (" + survey.why_none +
                           "): run on the CPU (InitOptions::device)");
  }
  if (env.shares_gpus) return cuda_device(env.local_rank % visible);
  // A scheduler may show each rank only its own GPU (srun --gpus-per-task=1). If several ranks see
  // the same one, the rendezvous refuses them.
  if (visible == 1) return cuda_device(0);
  if (env.local_rank < visible) return cuda_device(env.local_rank);
  throw EnvironmentError("LOCAL_RANK=" + std::to_string(env.local_rank) + ", but " +
                         std::to_string(visible) +
                         " GPUs are visible: start no more workers than that on this host, let a "
                         "launcher allow sharing (ddp-launch sets DDP_OVERSUBSCRIBE and what NCCL "
                         "needs for it), or run on the CPU (InitOptions::device)");
}

}  // namespace ddp
