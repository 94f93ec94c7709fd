// SPDX-License-Identifier: MIT
//
// The same program as bring_your_own_gradients.cpp, in CUDA: kernels, memory and stream are our
// own, and libddp only reduces the gradients. It never makes the host wait inside a step: events
// order its reductions behind our stream, and our optimizer behind the reductions.
//
//   ddp-launch --nproc_per_node=2 build/bin/bring_your_own_gradients_cuda
#include <cuda_runtime.h>
#include <ddp/data/fashion_mnist.h>
#include <ddp/ddp.h>
#include <ddp/samplers/exact_sampler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kPixels = 28 * 28, kHidden = 32, kClasses = 10;
constexpr int kGlobalBatch = 128;
constexpr float kLearningRate = 0.1F;
constexpr int kThreads = 256;  // per block

// Each kernel uses one thread for each element of its result. A weight's layout is
// [inputs][outputs].

// y = x * weight + bias, row by row.
__global__ void linear(const float* x, const float* weight, const float* bias, float* y, int rows,
                       int inputs, int outputs, bool relu) {
  const int k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (k >= rows * outputs) return;
  const int row = k / outputs, o = k % outputs;
  float sum = bias[o];
  for (int i = 0; i < inputs; ++i) sum += x[row * inputs + i] * weight[i * outputs + o];
  y[k] = relu ? fmaxf(sum, 0) : sum;
}

// Computes the gradients of weight and bias from that of y; the bias is treated as row `inputs` of
// the weight.
__global__ void linear_backward(const float* x, const float* dy, float* dweight, float* dbias,
                                int rows, int inputs, int outputs) {
  const int k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (k >= (inputs + 1) * outputs) return;
  const int i = k / outputs, o = k % outputs;
  float sum = 0;
  for (int row = 0; row < rows; ++row) {
    sum += (i == inputs ? 1 : x[row * inputs + i]) * dy[row * outputs + o];
  }
  (i == inputs ? dbias[o] : dweight[k]) = sum;
}

// Computes the gradient of the hidden units from that of the logits, and overwrites the hidden
// units with it.
__global__ void hidden_backward(const float* weight2, const float* dlogits, float* hidden,
                                int rows) {
  const int k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (k >= rows * kHidden) return;
  const int row = k / kHidden, unit = k % kHidden;
  float sum = 0;
  for (int c = 0; c < kClasses; ++c) {
    sum += weight2[unit * kClasses + c] * dlogits[row * kClasses + c];
  }
  hidden[k] = hidden[k] > 0 ? sum : 0;  // ReLU
}

struct Score {
  float mean_loss, correct;
};

// One thread per row: replaces the logits by the gradient of factor * the mean loss, and adds to
// `score`.
__global__ void softmax_cross_entropy(float* all_logits, const std::int64_t* labels, Score* score,
                                      int rows, float factor) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  float* logits = all_logits + row * kClasses;
  const int label = static_cast<int>(labels[row]);
  int best = 0;
  for (int c = 1; c < kClasses; ++c) best = logits[c] > logits[best] ? c : best;
  const float largest = logits[best], own = logits[label], scale = factor / rows;
  float sum = 0;
  for (int c = 0; c < kClasses; ++c) sum += logits[c] = expf(logits[c] - largest);
  for (int c = 0; c < kClasses; ++c) logits[c] *= scale / sum;
  logits[label] -= scale;
  atomicAdd(&score->mean_loss, (logf(sum) + largest - own) / rows);
  if (best == label) atomicAdd(&score->correct, 1.0F);
}

// The gradient is still a sum over ranks. Multiplying by `scale` here, where the gradient is read
// anyway, saves a pass over all gradients. Null: there is nothing to scale.
__global__ void sgd(float* value, const float* gradient, int count, const double* scale) {
  const int k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (k >= count) return;
  value[k] -= kLearningRate * (scale ? static_cast<float>(*scale) : 1.0F) * gradient[k];
}

constexpr unsigned blocks(int threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

void check(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

struct CudaFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
template <class T>
using DeviceArray = std::unique_ptr<T[], CudaFree>;

template <class T>
DeviceArray<T> device_array(int count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(T)));
  return DeviceArray<T>(static_cast<T*>(memory));
}

struct StreamDestroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using OwnedStream = std::unique_ptr<CUstream_st, StreamDestroy>;

OwnedStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return OwnedStream(stream);
}

enum : std::size_t { kWeight1, kBias1, kWeight2, kBias2 };
constexpr std::array<int, 4> kCounts = {kPixels * kHidden, kHidden, kHidden* kClasses, kClasses};

class Trainer {
 public:
  explicit Trainer(std::shared_ptr<ddp::ProcessGroup> group)
      : group_(std::move(group)),
        stream_(make_stream()),
        ddp_(group_, parameters(),
             {.nominal_samples = static_cast<double>(kGlobalBatch) / group_->world_size(),
              .fold_scale = true}) {}

  // `order`: the fingerprint of the plan, by which the engine knows that all ranks have the same
  // one.
  void train_step(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices,
                  std::uint32_t order);
  // Returns how many of these samples are predicted correctly.
  double count_correct(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices);
  // The mean loss of the last step over all ranks; waits for it.
  double mean_loss() { return ddp_.summary().metrics[0].mean(); }

 private:
  std::vector<ddp::Parameter> parameters();
  int load(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices);
  void forward(int rows, float factor);
  void backward(int rows);
  float* value(std::size_t i) const { return values_[i].get(); }
  float* gradient(std::size_t i) const { return static_cast<float*>(ddp_.gradient(i).data); }

  std::shared_ptr<ddp::ProcessGroup> group_;
  OwnedStream stream_;
  std::array<DeviceArray<float>, 4> values_;
  DeviceArray<float> pixels_ = device_array<float>(kGlobalBatch * kPixels);
  DeviceArray<float> hidden_ = device_array<float>(kGlobalBatch * kHidden);
  DeviceArray<float> logits_ = device_array<float>(kGlobalBatch * kClasses);
  DeviceArray<std::int64_t> labels_ = device_array<std::int64_t>(kGlobalBatch);
  DeviceArray<Score> score_ = device_array<Score>(1);
  ddp::DistributedDataParallel ddp_;
};

// The memory of the values is ours; libddp gives each gradient a place in its buckets.
std::vector<ddp::Parameter> Trainer::parameters() {
  const std::array<std::vector<std::int64_t>, 4> shapes = {
      {{kPixels, kHidden}, {kHidden}, {kHidden, kClasses}, {kClasses}}};
  std::mt19937 random;
  std::vector<ddp::Parameter> result;
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    const auto count = static_cast<std::size_t>(kCounts[i]);
    const bool is_weight = shapes[i].size() == 2;
    std::normal_distribution<float> normal(0, std::sqrt(2.0F / static_cast<float>(shapes[i][0])));
    std::vector<float> initial(count);
    for (float& each : initial) each = is_weight ? normal(random) : 0;
    values_[i] = device_array<float>(kCounts[i]);
    check(cudaMemcpy(value(i), initial.data(), count * sizeof(float), cudaMemcpyDefault));
    result.push_back({"parameter" + std::to_string(i),
                      shapes[i],
                      {value(i), count, ddp::DType::kFloat32, group_->device()}});
  }
  check(cudaDeviceSynchronize());  // libddp reads them on streams of its own
  return result;
}

int Trainer::load(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices) {
  std::vector<float> pixels(indices.size() * kPixels);
  std::vector<std::int64_t> labels(indices.size());
  dataset.gather(indices, ddp::buffer_of(pixels), ddp::buffer_of(labels));
  check(cudaMemcpyAsync(pixels_.get(), pixels.data(), pixels.size() * sizeof(float),
                        cudaMemcpyDefault, stream_.get()));
  check(cudaMemcpyAsync(labels_.get(), labels.data(), labels.size() * sizeof(std::int64_t),
                        cudaMemcpyDefault, stream_.get()));
  check(cudaMemsetAsync(score_.get(), 0, sizeof(Score), stream_.get()));
  // The vectors end here. ddp::DataLoader copies from pinned memory that it keeps, without waiting.
  check(cudaStreamSynchronize(stream_.get()));
  return static_cast<int>(indices.size());
}

void Trainer::forward(int rows, float factor) {
  linear<<<blocks(rows * kHidden), kThreads, 0, stream_.get()>>>(
      pixels_.get(), value(kWeight1), value(kBias1), hidden_.get(), rows, kPixels, kHidden, true);
  linear<<<blocks(rows * kClasses), kThreads, 0, stream_.get()>>>(
      hidden_.get(), value(kWeight2), value(kBias2), logits_.get(), rows, kHidden, kClasses, false);
  softmax_cross_entropy<<<blocks(rows), kThreads, 0, stream_.get()>>>(logits_.get(), labels_.get(),
                                                                      score_.get(), rows, factor);
}

// mark_ready says that a gradient is final once the work that our stream holds now has run.
void Trainer::backward(int rows) {
  linear_backward<<<blocks((kHidden + 1) * kClasses), kThreads, 0, stream_.get()>>>(
      hidden_.get(), logits_.get(), gradient(kWeight2), gradient(kBias2), rows, kHidden, kClasses);
  ddp_.mark_ready(kBias2, stream_.get());
  ddp_.mark_ready(kWeight2, stream_.get());
  hidden_backward<<<blocks(rows * kHidden), kThreads, 0, stream_.get()>>>(
      value(kWeight2), logits_.get(), hidden_.get(), rows);
  linear_backward<<<blocks((kPixels + 1) * kHidden), kThreads, 0, stream_.get()>>>(
      pixels_.get(), hidden_.get(), gradient(kWeight1), gradient(kBias1), rows, kPixels, kHidden);
  ddp_.mark_ready(kBias1, stream_.get());
  ddp_.mark_ready(kWeight1, stream_.get());
}

void Trainer::train_step(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices,
                         std::uint32_t order) {
  const auto n = static_cast<double>(indices.size());
  const double factor = ddp_.begin_step({.samples = n, .plan_fingerprint = order});
  if (n > 0) {  // a rank without samples only takes part in the sum
    const int rows = load(dataset, indices);
    forward(rows, static_cast<float>(factor));
    const ddp::Buffer loss = {&score_[0].mean_loss, 1, ddp::DType::kFloat32, group_->device()};
    ddp_.record_metric(0, loss, n);
    backward(rows);
  }
  ddp_.wait(stream_.get());
  if (!ddp_.should_step()) return;
  for (std::size_t i = 0; i < kCounts.size(); ++i) {
    sgd<<<blocks(kCounts[i]), kThreads, 0, stream_.get()>>>(value(i), gradient(i), kCounts[i],
                                                            ddp_.gradient_scale());
  }
  check(cudaGetLastError());
}

double Trainer::count_correct(const ddp::Dataset& dataset,
                              const std::vector<std::int64_t>& indices) {
  if (indices.empty()) return 0;
  forward(load(dataset, indices), 1);
  Score score = {};
  check(cudaMemcpyAsync(&score, score_.get(), sizeof(Score), cudaMemcpyDefault, stream_.get()));
  check(cudaStreamSynchronize(stream_.get()));
  return score.correct;
}

// Plans one pass over the data, in which every sample comes once, however many ranks there are.
ddp::EpochPlan plan_of(const ddp::Dataset& dataset, const ddp::ProcessGroup& group, bool shuffle) {
  const ddp::ExactSampler sampler({.dataset_size = dataset.size(),
                                   .world_size = group.world_size(),
                                   .rank = group.rank(),
                                   .global_batch_size = kGlobalBatch,
                                   .shuffle = shuffle});
  return sampler.plan({.epoch = 0});
}

void run() {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCuda});
  const auto train_set = ddp::load_fashion_mnist(ddp::DataSplit::kTrain);
  const auto test_set = ddp::load_fashion_mnist(ddp::DataSplit::kTest);
  Trainer trainer(group);
  const ddp::EpochPlan plan = plan_of(train_set, *group, true);
  const std::uint32_t order = plan.fingerprint();
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    trainer.train_step(train_set, plan.batch(step), order);
    if (group->rank() == 0 && ((step + 1) % 100 == 0 || step + 1 == plan.steps())) {
      std::printf("step %lld of %lld: loss %.6f\n", static_cast<long long>(step + 1),
                  static_cast<long long>(plan.steps()), trainer.mean_loss());
    }
  }
  const ddp::EpochPlan test_plan = plan_of(test_set, *group, false);
  std::array<double, 1> correct = {};
  for (std::int64_t step = 0; step < test_plan.steps(); ++step) {
    correct[0] += trainer.count_correct(test_set, test_plan.batch(step));
  }
  ddp::all_reduce_on_host(*group, correct);
  if (group->rank() == 0) {
    std::printf("test accuracy %.2f %%\n", 100 * correct[0] / static_cast<double>(test_set.size()));
  }
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    ddp::record_error(error);
    std::fprintf(stderr, "bring_your_own_gradients_cuda: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
