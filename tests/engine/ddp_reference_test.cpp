// SPDX-License-Identifier: MIT
//
// Compares two ranks with PyTorch's own DistributedDataParallel on two ranks.
// tests/reference/make_ddp_reference.py describes what PyTorch ran and the lines that it printed.
// PyTorch 1.13, 2.6 and 2.15 print the same numbers to 1e-15.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "ddp/collectives/tcp/tcp_process_group.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/groups.h"
#include "support/reference.h"

using namespace ddp;
using test::Reference;

namespace {

constexpr std::uint64_t kSeed = 17;
constexpr std::size_t kRanks = 2;

// The number of rows of each rank in each pass of a step.
using Passes = std::vector<std::vector<std::size_t>>;
// Values by the name of the parameter.
using Values = std::map<std::string, std::vector<double>>;

struct Case {
  std::string model;
  std::string dtype;
  std::string variant;

  [[nodiscard]] DType type() const {
    return dtype == "float64" ? DType::kFloat64 : DType::kFloat32;
  }
};

std::string title_of(const Case& self) {
  return self.model + " " + self.dtype + " " + self.variant;
}

// The passes and the results of a PyTorch run.
struct TorchRun {
  std::vector<Passes> steps;
  std::vector<double> losses;
  Values ddp;
  Values alone;  // result of one process; empty if it must be the same
};

void add_step(TorchRun& run, const std::vector<double>& line) {
  Passes passes;
  for (std::size_t i = 1; i < line.size(); i += kRanks) {
    passes.push_back({static_cast<std::size_t>(line[i]), static_cast<std::size_t>(line[i + 1])});
  }
  run.steps.push_back(std::move(passes));
  run.losses.push_back(line.front());
}

Values values_of(const Reference& reference, const std::string& key) {
  Values values;
  for (auto line = reference.lower_bound(key); line != reference.end(); ++line) {
    if (!line->first.starts_with(key)) break;
    values[line->first.substr(key.size())] = line->second;
  }
  return values;
}

TorchRun read_run(const Case& self) {
  const Reference reference = test::read_reference(DDP_REFERENCE_DIR "/ddp_reference.txt", 5);
  const std::string title = title_of(self);
  TorchRun run;
  for (std::size_t step = 0;; ++step) {
    const auto line = reference.find(title + " step " + std::to_string(step));
    if (line == reference.end()) break;
    add_step(run, line->second);
  }
  run.ddp = values_of(reference, title + " ddp ");
  run.alone = values_of(reference, title + " alone ");
  return run;
}

// The weight of a rank's gradient in the mean: its number of rows, which gives the mean over the
// whole batch, or, as in PyTorch, equal for every rank and pass.
enum class Weights { kRows, kEqual };

// The training of one rank.
class Trainer {
 public:
  Trainer(const Case& self, Weights weights, ProcessGroup& group)
      : type_(self.type()),
        weights_(weights),
        rank_(static_cast<std::size_t>(group.rank())),
        module_(nn::make_model(self.model, {context_, self.type(), kSeed})),
        model_(*module_, context_, group.shared_from_this(), {.nominal_samples = 4}),
        sgd_(context_, module_->parameters(),
             {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-4}) {}

  // Returns the mean loss over all rows.
  double step(const Passes& passes) {
    model_.engine().accumulate(static_cast<int>(passes.size()));
    for (const std::vector<std::size_t>& rows : passes) pass(rows);
    model_.step(sgd_);
    return model_.engine().summary().metrics[0].mean();
  }

  Values values() {
    Values all;
    for (const nn::Parameter* parameter : module_->parameters()) {
      all[parameter->name()] = test::to_doubles(context_, parameter->value());
    }
    return all;
  }

 private:
  void pass(const std::vector<std::size_t>& rows) {
    const std::size_t first = std::accumulate(rows.begin(), rows.begin() + rank_, next_sample_);
    next_sample_ = std::accumulate(rows.begin(), rows.end(), next_sample_);
    const std::size_t own = rows[rank_];
    const nn::Variable logits =
        module_->forward(tape_, test::reference_images(context_, kSeed, first, own, type_));
    const nn::Variable loss = nn::softmax_cross_entropy(
        tape_, logits, test::reference_labels(context_, kSeed, first, own));
    const auto n = static_cast<double>(own);
    const nn::StepMetric metric{loss.value(), n};
    model_.backward(tape_, loss, weights_ == Weights::kRows ? n : 1, {&metric, 1});
  }

  DType type_;
  Weights weights_;
  std::size_t rank_;
  nn::Context context_;
  nn::Tape tape_{context_};
  std::unique_ptr<nn::Module> module_;
  nn::DistributedModule model_;
  nn::Sgd sgd_;
  std::size_t next_sample_ = 0;
};

struct Trained {
  std::vector<double> losses;
  Values values;
};

// Returns rank 0's result; all ranks must agree with it to the last bit.
Trained train(const Case& self, const TorchRun& torch, Weights weights, Backend backend) {
  std::vector<Trained> ranks(kRanks);
  test::run_groups(backend, kRanks, [&](ProcessGroup& group) {
    Trainer trainer(self, weights, group);
    Trained& trained = ranks[static_cast<std::size_t>(group.rank())];
    for (const Passes& passes : torch.steps) trained.losses.push_back(trainer.step(passes));
    trained.values = trainer.values();
  });
  CHECK(ranks[0].values == ranks[1].values);
  return ranks[0];
}

// The largest difference of any parameter.
double difference(const Values& ours, const Values& lines) {
  REQUIRE(ours.size() == lines.size());
  double worst = 0;
  for (const auto& [name, value] : ours) {
    worst = test::larger(worst, test::difference(value, lines.at(name)));
  }
  return worst;
}

double relative_difference(const std::vector<double>& ours, const std::vector<double>& torch) {
  double worst = 0;
  for (std::size_t i = 0; i < torch.size(); ++i) {
    worst = test::larger(worst, std::abs(ours.at(i) - torch[i]) / std::abs(torch[i]));
  }
  return worst;
}

void check_equals_torch(const Case& self, std::size_t steps, double tolerance, Backend backend) {
  INFO(title_of(self) << " over " << to_string(backend));
  const TorchRun torch = read_run(self);
  REQUIRE(torch.steps.size() == steps);
  const Trained ours = train(self, torch, Weights::kRows, backend);
  CHECK(relative_difference(ours.losses, torch.losses) <= tolerance);
  CHECK(difference(ours.values, torch.ddp) <= tolerance);
}

const std::vector<std::string> kModels = {"mlp", "lenet5"};

}  // namespace

TEST_CASE("50 steps in float64 equal PyTorch's DistributedDataParallel to 1e-12", "[ddp][torch]") {
  for (const std::string& model : kModels) {
    check_equals_torch({model, "float64", "plain"}, 50, 1e-12, Backend::kShm);
    check_equals_torch({model, "float64", "accumulate"}, 50, 1e-12, Backend::kShm);
  }
}

TEST_CASE("10 steps in float32 equal PyTorch's DistributedDataParallel to 1e-5", "[ddp][torch]") {
  for (const std::string& model : kModels) {
    check_equals_torch({model, "float32", "plain"}, 10, 1e-5, Backend::kShm);
    check_equals_torch({model, "float32", "accumulate"}, 10, 1e-5, Backend::kShm);
  }
}

TEST_CASE("steps over tcp equal PyTorch's DistributedDataParallel too", "[ddp][torch]") {
  check_equals_torch({"mlp", "float64", "accumulate"}, 50, 1e-12, Backend::kTcp);
  check_equals_torch({"lenet5", "float32", "plain"}, 10, 1e-5, Backend::kTcp);
}

// PyTorch takes the mean of the means of ranks and passes, so a sample in a short batch weighs more
// than others. Here every sample weighs the same.
TEST_CASE("short batches give the model of one process, unlike in PyTorch", "[ddp][torch]") {
  for (const std::string& model : kModels) {
    for (const char* variant : {"uneven", "uneven_accumulate"}) {
      const Case self{model, "float64", variant};
      INFO(title_of(self));
      const TorchRun torch = read_run(self);
      const Trained ours = train(self, torch, Weights::kRows, Backend::kShm);
      CHECK(difference(ours.values, torch.alone) <= 1e-12);
      CHECK(difference(ours.values, torch.ddp) >= 1e-3);
      // Only the weights differ.
      const Trained mean_of_means = train(self, torch, Weights::kEqual, Backend::kShm);
      CHECK(difference(mean_of_means.values, torch.ddp) <= 1e-12);
    }
  }
}
