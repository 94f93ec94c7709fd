// SPDX-License-Identifier: MIT
//
// CPU kernels beside LibTorch's, in turns: shapes of lenet5, resnet18, a U-Net and gpt-micro.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/system/cpu_count.h"
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/cross_entropy.h"
#include "ddp/kernels/embedding.h"
#include "ddp/kernels/layer_norm.h"
#include "ddp/kernels/max_pool2d.h"
#include "ddp/kernels/pointwise_loss.h"
#include "ddp/kernels/softmax.h"
#include "ddp/kernels/unary.h"
#include "ddp/kernels/upsample_nearest2d.h"
#include "ddp_torch.h"
#include "support/blas.h"
#include "support/command_line.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp::bench;
namespace cpu = ddp::cpu;
using at::Tensor;
using ddp::Buffer;
using ddp::ChannelShape;
using ddp::MatrixShape;
using ddp_torch::buffer_of;

struct Options {
  int rounds = 15;
  std::string filter;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_torch_kernels", "Microseconds of CPU kernels, ours and LibTorch's");
  line.add("rounds", "interleaved repeats", options.rounds);
  line.add("filter", "only the kernels whose names contain this", options.filter);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

std::size_t size(std::int64_t number) { return static_cast<std::size_t>(number); }

Tensor floats(at::IntArrayRef shape) { return at::randn(shape); }
Tensor doubles(std::int64_t count) { return at::zeros({count}, at::kDouble); }

class Comparison {
 public:
  explicit Comparison(Options options)
      : options_(std::move(options)),
        table_({{"kernel", 22},
                {"shape", 14},
                {"ours", 8},
                {"+-", 4},
                {"LibTorch", 8},
                {"+-", 4},
                {"ours/LibTorch", 14},
                {"+-", 4}}) {
    table_.print_titles();
  }

  // A sample is the mean time of as many calls as take about a millisecond.
  void run(const std::string& kernel, const std::string& shape, const std::function<void()>& ours,
           const std::function<void()>& theirs) const {
    if (kernel.find(options_.filter) == std::string::npos) return;
    const auto variant = [](const char* name, const std::function<void()>& f) {
      f();
      const int calls = std::clamp(static_cast<int>(1000 / microseconds(f, 1)), 1, 1000);
      return Variant{name, [&f, calls] { return microseconds(f, calls); }};
    };
    std::vector<Variant> variants{variant("ours", ours), variant("LibTorch", theirs)};
    interleave(variants, options_.rounds);
    const Summary our_time = summarize(variants[0].samples);
    const Summary their_time = summarize(variants[1].samples);
    const Summary quotient = ratio(variants[0].samples, variants[1].samples);
    const auto spread = [](const Summary& s) { return rounded(s.spread_percent(), 0) + "%"; };
    table_.print_row({kernel, shape, rounded(our_time.median, 1), spread(our_time),
                      rounded(their_time.median, 1), spread(their_time),
                      rounded(quotient.median, 2), spread(quotient)});
  }

 private:
  static double microseconds(const std::function<void()>& f, int calls) {
    const double all = duration_of<std::chrono::microseconds>([&] {
      for (int i = 0; i < calls; ++i) f();
    });
    return all / calls;
  }

  Options options_;
  Table table_;
};

// Images: batch, channels, height and width.
struct Images {
  std::int64_t batch, channels, side;

  [[nodiscard]] std::string name() const {
    const std::string sides = "x" + std::to_string(side) + "x" + std::to_string(side);
    return std::to_string(batch) + "x" + std::to_string(channels) + sides;
  }
  [[nodiscard]] std::vector<std::int64_t> sizes(std::int64_t of_side) const {
    return {batch, channels, of_side, of_side};
  }
  [[nodiscard]] ChannelShape channel_shape() const {
    return {size(batch), size(channels), size(side * side)};
  }
};

void compare_pools(const Comparison& comparison, const Images& images) {
  const ddp::Pool2dShape shape{
      size(images.batch * images.channels), {size(images.side), size(images.side)}, {2, 2}, {2, 2}};
  const Tensor x = floats(images.sizes(images.side)), grad_x = at::zeros_like(x);
  const auto [y, their_indices] = at::max_pool2d_with_indices(x, {2, 2}, {2, 2});
  const Tensor grad_y = at::randn_like(y), indices = at::zeros_like(y, at::kInt);
  const Buffer out = buffer_of(y);
  comparison.run(
      "max_pool2d forward", images.name(),
      [&] { cpu::max_pool2d_forward(buffer_of(x), out, buffer_of(indices), shape); },
      [&] {
        at::max_pool2d_with_indices(x, {2, 2}, {2, 2});
      });
  comparison.run(
      "max_pool2d backward", images.name(),
      [&] {
        cpu::max_pool2d_backward(buffer_of(grad_y), buffer_of(indices), {buffer_of(grad_x)}, shape);
      },
      [&, &chosen = their_indices] {
        at::max_pool2d_with_indices_backward(grad_y, x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false,
                                             chosen);
      });
  comparison.run(
      "avg_pool2d forward", images.name(),
      [&] { cpu::avg_pool2d_forward(buffer_of(x), out, shape); },
      [&] {
        at::avg_pool2d(x, {2, 2}, {2, 2});
      });
  comparison.run(
      "avg_pool2d backward", images.name(),
      [&] { cpu::avg_pool2d_backward(buffer_of(grad_y), {buffer_of(grad_x)}, shape); },
      [&] {
        at::avg_pool2d_backward(grad_y, x, {2, 2}, {2, 2}, {0, 0}, false, true, c10::nullopt);
      });
}

void compare_upsampling(const Comparison& comparison, const Images& images) {
  const std::int64_t twice = 2 * images.side;
  const ddp::Upsample2dShape shape{
      size(images.batch * images.channels), {size(images.side), size(images.side)}, {2, 2}};
  const Tensor x = floats(images.sizes(images.side)), y = floats(images.sizes(twice));
  comparison.run(
      "upsample_nearest2d", images.name(),
      [&] { cpu::upsample_nearest2d_forward(buffer_of(x), buffer_of(y), shape); },
      [&] {
        at::upsample_nearest2d(x, {twice, twice});
      });
  comparison.run(
      "... backward", images.name(),
      [&] { cpu::upsample_nearest2d_backward(buffer_of(y), {buffer_of(x)}, shape); },
      [&] {
        at::upsample_nearest2d_backward(y, {twice, twice}, images.sizes(images.side));
      });
}

void compare_batch_norm(const Comparison& comparison, const Images& images) {
  const std::int64_t c = images.channels;
  const ChannelShape shape = images.channel_shape();
  const Tensor x = floats(images.sizes(images.side)), y = at::empty_like(x);
  const Tensor weight = floats({c}), bias = floats({c}), mean = floats({c}), invstd = floats({c});
  const Tensor running_mean = at::zeros({c}), running_var = at::ones({c});
  const Tensor moments = doubles(2 * c + 1), sums = doubles(2 * c), terms = at::zeros({2 * c});
  const Tensor grad_weight = at::zeros({c}), grad_bias = at::zeros({c}), grad_y = at::randn_like(x);
  const ddp::BatchNormOperands operands{buffer_of(mean), buffer_of(invstd), buffer_of(weight)};
  comparison.run(
      "batch_norm forward", images.name(),
      [&] {
        cpu::channel_moments(buffer_of(x), buffer_of(moments), shape);
        cpu::moments_to_statistics(buffer_of(moments), 1e-5, buffer_of(mean), buffer_of(invstd));
        cpu::batch_norm_forward(buffer_of(x), operands, buffer_of(bias), buffer_of(y), shape);
      },
      [&] { at::native_batch_norm(x, weight, bias, running_mean, running_var, true, 0.1, 1e-5); });
  const auto [their_y, their_mean, their_invstd] =
      at::native_batch_norm(x, weight, bias, running_mean, running_var, true, 0.1, 1e-5);
  comparison.run(
      "batch_norm backward", images.name(),
      [&] {
        cpu::batch_norm_sums(buffer_of(x), buffer_of(grad_y), buffer_of(mean), buffer_of(sums),
                             shape);
        cpu::batch_norm_grad_bias(buffer_of(sums), {buffer_of(grad_bias)});
        cpu::batch_norm_grad_weight(buffer_of(sums), buffer_of(invstd), {buffer_of(grad_weight)});
        cpu::batch_norm_terms(buffer_of(sums), buffer_of(moments).slice(size(2 * c), 1),
                              buffer_of(invstd), buffer_of(terms));
        cpu::batch_norm_grad_input(buffer_of(x), buffer_of(grad_y), operands, buffer_of(terms),
                                   {buffer_of(y)}, shape);
      },
      [&, &saved_mean = their_mean, &saved_invstd = their_invstd] {
        at::native_batch_norm_backward(grad_y, x, weight, running_mean, running_var, saved_mean,
                                       saved_invstd, true, 1e-5, {true, true, true});
      });
}

struct Matrix {
  std::int64_t rows, columns;

  [[nodiscard]] std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(columns);
  }
  [[nodiscard]] MatrixShape shape() const { return {size(rows), size(columns)}; }
};

void compare_softmax(const Comparison& comparison, const Matrix& matrix) {
  const MatrixShape shape = matrix.shape();
  const Tensor x = floats({matrix.rows, matrix.columns}), y = at::_softmax(x, 1, false);
  const Tensor grad_y = at::randn_like(x), grad_x = at::zeros_like(x);
  const Tensor labels = at::randint(matrix.columns, {matrix.rows}, at::kLong);
  const Tensor losses = at::zeros({matrix.rows}), loss = at::zeros({1}), one = at::ones({1});
  comparison.run(
      "softmax forward", matrix.name(),
      [&] { cpu::softmax_forward(buffer_of(x), buffer_of(y), shape, ddp::SoftmaxMask::kNone); },
      [&] { at::_softmax(x, 1, false); });
  comparison.run(
      "softmax backward", matrix.name(),
      [&] { cpu::softmax_backward(buffer_of(y), buffer_of(grad_y), {buffer_of(grad_x)}, shape); },
      [&] { at::_softmax_backward_data(grad_y, y, 1, at::kFloat); });
  comparison.run(
      "cross_entropy, both", matrix.name(),
      [&] {
        cpu::softmax_cross_entropy_forward(buffer_of(x), buffer_of(labels),
                                           {buffer_of(y), buffer_of(losses), buffer_of(loss)},
                                           shape, 0);
        cpu::softmax_cross_entropy_backward(buffer_of(y), buffer_of(labels), buffer_of(one),
                                            {buffer_of(grad_x)}, shape, 0);
      },
      [&] {
        const Tensor logs = at::_log_softmax(x, 1, false);
        const auto [mean, weight] =
            at::nll_loss_forward(logs, labels, {}, at::Reduction::Mean, -100);
        const Tensor grad_logs = at::nll_loss_backward(one.squeeze(), logs, labels, {},
                                                       at::Reduction::Mean, -100, weight);
        at::_log_softmax_backward_data(grad_logs, logs, 1, at::kFloat);
      });
}

void compare_layer_norm(const Comparison& comparison, const Matrix& matrix) {
  const std::int64_t c = matrix.columns;
  const MatrixShape shape = matrix.shape();
  const Tensor x = floats({matrix.rows, c}), y = at::zeros_like(x), grad_y = at::randn_like(x);
  const Tensor weight = floats({c}), bias = floats({c});
  const Tensor grad_weight = at::zeros({c}), grad_bias = at::zeros({c});
  const auto [their_y, their_mean, their_rstd] = at::native_layer_norm(x, {c}, weight, bias, 1e-5);
  const Tensor mean = their_mean.clone(), rstd = their_rstd.clone();
  const ddp::LayerNormOperands operands{buffer_of(x), buffer_of(mean), buffer_of(rstd)};
  comparison.run(
      "layer_norm forward", matrix.name(),
      [&] {
        cpu::layer_norm_forward(buffer_of(x), buffer_of(weight), buffer_of(bias), 1e-5,
                                {buffer_of(y), buffer_of(mean), buffer_of(rstd)}, shape);
      },
      [&] { at::native_layer_norm(x, {c}, weight, bias, 1e-5); });
  comparison.run(
      "layer_norm backward", matrix.name(),
      [&] {
        cpu::layer_norm_grad_input(operands, buffer_of(weight), buffer_of(grad_y), {buffer_of(y)},
                                   shape);
        cpu::layer_norm_grad_weight(operands, buffer_of(grad_y), {buffer_of(grad_weight)}, shape);
        cpu::bias_grad(buffer_of(grad_y), {buffer_of(grad_bias)}, shape);
      },
      [&] {
        at::native_layer_norm_backward(grad_y, x, {c}, mean, rstd, weight, bias,
                                       {true, true, true});
      });
  comparison.run(
      "bias_grad", matrix.name(),
      [&] { cpu::bias_grad(buffer_of(grad_y), {buffer_of(grad_bias)}, shape); },
      [&] { at::sum(grad_y, {0}); });
}

void compare_losses(const Comparison& comparison, const Matrix& matrix) {
  const MatrixShape shape = matrix.shape();
  const Tensor x = floats({matrix.rows, matrix.columns}), target = at::rand_like(x);
  const Tensor losses = at::zeros({matrix.rows}), loss = at::zeros({1});
  const ddp::PointwiseLossResult result{buffer_of(losses), buffer_of(loss)};
  comparison.run(
      "mse_loss", matrix.name(),
      [&] {
        cpu::pointwise_loss_forward(buffer_of(x), buffer_of(target), result, shape,
                                    {ddp::PointwiseLossKind::kSquaredError});
      },
      [&] { at::mse_loss(x, target); });
  comparison.run(
      "bce_with_logits", matrix.name(),
      [&] {
        cpu::pointwise_loss_forward(buffer_of(x), buffer_of(target), result, shape,
                                    {ddp::PointwiseLossKind::kBceWithLogits});
      },
      [&] { at::binary_cross_entropy_with_logits(x, target); });
}

void compare_embedding(const Comparison& comparison, std::int64_t tokens, const Matrix& matrix) {
  const Tensor table = floats({matrix.rows, matrix.columns}), gradient = at::zeros_like(table);
  const Tensor indices = at::randint(matrix.rows, {tokens}, at::kLong);
  const Tensor y = floats({tokens, matrix.columns});
  comparison.run(
      "embedding forward", matrix.name(),
      [&] {
        cpu::embedding_forward(buffer_of(table), buffer_of(indices), buffer_of(y), matrix.shape());
      },
      [&] { at::embedding(table, indices); });
  comparison.run(
      "embedding backward", matrix.name(),
      [&] {
        cpu::embedding_backward(buffer_of(y), buffer_of(indices), {buffer_of(gradient)},
                                matrix.shape());
      },
      [&] { at::embedding_dense_backward(y, indices, matrix.rows, -1, false); });
}

struct Function {
  const char* name;
  ddp::UnaryKind kind;
  Tensor (*theirs)(const Tensor&);
};

const Function kFunctions[] = {
    {"exp", ddp::UnaryKind::kExp, [](const Tensor& x) { return at::exp(x); }},
    {"log", ddp::UnaryKind::kLog, [](const Tensor& x) { return at::log(x); }},
    {"relu", ddp::UnaryKind::kRelu, [](const Tensor& x) { return at::relu(x); }},
    {"gelu", ddp::UnaryKind::kGelu, [](const Tensor& x) { return at::gelu(x); }},
    {"gelu, tanh", ddp::UnaryKind::kGeluTanh, [](const Tensor& x) { return at::gelu(x, "tanh"); }},
    {"sigmoid", ddp::UnaryKind::kSigmoid, [](const Tensor& x) { return at::sigmoid(x); }},
    {"silu", ddp::UnaryKind::kSilu, [](const Tensor& x) { return at::silu(x); }},
    {"softplus", ddp::UnaryKind::kSoftplus, [](const Tensor& x) { return at::softplus(x); }},
    {"tanh", ddp::UnaryKind::kTanh, [](const Tensor& x) { return at::tanh(x); }},
};

void compare_functions(const Comparison& comparison, std::int64_t count) {
  const Tensor x = at::rand({count}) + 0.1, y = at::zeros_like(x);
  for (const Function& f : kFunctions) {
    comparison.run(
        f.name, std::to_string(count),
        [&] { cpu::unary_forward(buffer_of(x), buffer_of(y), {f.kind}); }, [&] { f.theirs(x); });
  }
}

void run(const Options& options) {
  const Pinned pinned(ddp::affinity_cpus().front());
  at::set_num_threads(1);
  at::manual_seed(0);
  std::puts(header_line("bench_torch_kernels").c_str());
  std::printf("# float32, one thread, microseconds; medians of %d interleaved samples\n",
              options.rounds);
  const Comparison comparison(options);
  for (const Images& images : {Images{64, 6, 28}, Images{64, 16, 10}, Images{16, 32, 64}}) {
    compare_pools(comparison, images);
  }
  compare_upsampling(comparison, {16, 32, 32});
  for (const Images& images : {Images{16, 64, 16}, Images{16, 256, 4}, Images{16, 32, 64}}) {
    compare_batch_norm(comparison, images);
  }
  for (const Matrix& matrix : {Matrix{64, 10}, Matrix{2048, 65}, Matrix{8192, 128}}) {
    compare_softmax(comparison, matrix);
  }
  for (const Matrix& matrix : {Matrix{2048, 128}, Matrix{1024, 768}}) {
    compare_layer_norm(comparison, matrix);
  }
  compare_losses(comparison, {64, 4096});
  compare_embedding(comparison, 2048, {65, 128});
  compare_functions(comparison, 1 << 18);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_torch_kernels", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
