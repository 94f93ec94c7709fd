// SPDX-License-Identifier: MIT
//
// ddp-prove: seeded mistakes are found and explained, and a right program passes.
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/step_sketch.h"
#include "ddp/base/time.h"
#include "launcher/launch_error.h"
#include "launcher/prove/equivalence.h"
#include "launcher/prove/options.h"
#include "support/files.h"
#include "support/launch.h"

namespace ddp::prove {
namespace {

using Catch::Matchers::Contains;
using test::launch::Result;
using test::launch::run;
using test::launch::Strings;

Result prove(const Strings& args) {
  Strings command = {DDP_PROVE_PATH};
  command.insert(command.end(), args.begin(), args.end());
  return run(command);
}

Result prove_worker(const std::string& mistake, const std::string& ranks = "1,2,3") {
  return prove({ranks, DDP_PROVE_WORKER_PATH, mistake});
}

void check_found(const std::string& mistake, const std::string& text) {
  CAPTURE(mistake);
  const Result result = prove_worker(mistake, "1,3");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err,
             Contains("ddp-prove: 1 rank and 3 ranks do not train the same model: " + text));
}

StepSketch step_with(double weight, double gradient) {
  const std::vector<double> value = {weight, 2 * weight};
  const std::vector<double> slope = {gradient, -gradient};
  return {.step = 1, .samples = 8, .parameters = {{"w", 2, sketch(value, 0), sketch(slope, 0)}}};
}

}  // namespace

TEST_CASE("sketches tell how far tensors are apart", "[prove]") {
  std::vector<double> a(1000);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i % 7);
  std::vector<double> b = a;
  CHECK(sketch(a, 0) == sketch(b, 0));
  CHECK(sketch(a, 0) != sketch(a, 1));
  b[500] += 2;
  const TensorSketch before = sketch(a, 0);
  const TensorSketch after = sketch(b, 0);
  for (std::size_t j = 0; j < kProjections; ++j) {
    CHECK(std::abs(after[j] - before[j]) == Approx(2));
  }
}

TEST_CASE("a step is read back as it was written", "[prove]") {
  StepSketch step = step_with(1.0 / 3, 1e-300);
  step.engine = 1;
  step.has_buffers = true;
  step.parameters[0].name = "layer \"1\"\n";
  const std::string line = to_json(step);
  CHECK(line.find('\n') == std::string::npos);
  const StepSketch read = parse_step_sketch(line);
  CHECK(read.engine == 1);
  CHECK(read.step == 1);
  CHECK(read.samples == 8);
  CHECK(read.has_buffers);
  REQUIRE(read.parameters.size() == 1);
  CHECK(read.parameters[0].name == step.parameters[0].name);
  CHECK(read.parameters[0].count == 2);
  CHECK(read.parameters[0].value == step.parameters[0].value);
  CHECK(read.parameters[0].gradient == step.parameters[0].gradient);
  CHECK_THROWS_AS(parse_step_sketch("{\"engine\":"), FileError);
  CHECK_THROWS_AS(parse_step_sketch("{}"), FileError);
}

TEST_CASE("runs are compared by their largest relative distance", "[prove]") {
  const Run one{1, {step_with(1, 1)}};
  const Comparison same = compare(one, {2, {step_with(1, 1 + 1e-6)}}, 1e-3);
  CHECK(same.difference.empty());
  CHECK(same.values.relative == 0);
  CHECK(same.gradients.relative == Approx(1e-6).epsilon(0.01));
  CHECK(same.gradients.parameter == "w");
  CHECK_THAT(
      compare(one, {2, {step_with(1, std::numeric_limits<double>::quiet_NaN())}}, 1e-3).difference,
      Contains("infinite or not a number"));
  CHECK_THAT(compare(one, {2, {step_with(1, 1), step_with(1, 1)}}, 1e-3).difference,
             Contains("steps: 1 with 1 rank, but 2 with 2 ranks"));
  Run other{2, {step_with(1, 1)}};
  other.steps[0].parameters[0].name = "v";
  CHECK_THAT(compare(one, other, 1e-3).difference, Contains("step 1: the models have different"));
  other = {2, {step_with(1, 1)}};
  other.steps[0].engine = 1;
  CHECK_THAT(compare(one, other, 1e-3).difference,
             Contains("steps: 1 with 1 rank, but 0 with 2 ranks"));
}

TEST_CASE("a difference is one of an engine's, after the steps of the others", "[prove]") {
  const auto run_with = [](int ranks, double gradient) {
    Run run{ranks, {step_with(1, 1), step_with(1, gradient)}};
    run.steps[1].engine = 1;
    run.steps[1].engines = 2;
    return run;
  };
  const Run reference = run_with(1, 1);
  const Comparison comparison = compare(reference, run_with(2, 1.3), 1e-3);
  CHECK_THAT(comparison.difference, Contains("engine 2, step 1: all gradients are 1.3 times"));
  CHECK(comparison.may_be_rounding);
  const Run loud = run_with(1, 1.2);
  CHECK(compare(reference, run_with(2, 1.3), 1e-3, &loud).difference.empty());
  CHECK_THAT(compare({1, {step_with(1, 1)}}, run_with(2, 1), 1e-3).difference,
             Contains("steps of engine 2: 0 with 1 rank, but 1 with 2 ranks"));
}

// Like those of a bias before a batch norm, of which Adam makes full steps.
TEST_CASE("gradients that may be rounding alone do not count, nor what they have moved",
          "[prove]") {
  const auto steps = [](double rounding, double moved, double weight) {
    std::vector<StepSketch> result = {step_with(1, 1), step_with(weight, 1)};
    for (StepSketch& step : result) {
      step.parameters.push_back({"bias", 2, {}, sketch(std::vector{rounding, 0.0}, 1)});
    }
    result[1].parameters[1].value = sketch(std::vector{moved, 0.0}, 1);
    return result;
  };
  const auto difference = [&](double rounding, double moved, double weight) {
    return compare({1, steps(1e-8, 1, 2)}, {2, steps(rounding, moved, weight)}, 1e-3).difference;
  };
  CHECK(difference(-1e-8, -1, 2).empty());
  CHECK_THAT(difference(-1e-8, -1, 2.1), Contains("parameter 'w' differs by 0.05, although"));
  CHECK_THAT(difference(1e-6, 1, 2), Contains("the gradient of 'bias' differs"));
}

TEST_CASE("tensors of zeros are compared like others", "[prove]") {
  const auto difference = [](const StepSketch& a, const StepSketch& b) {
    return compare({1, {a}}, {2, {b}}, 1e-3).difference;
  };
  CHECK(difference(step_with(0, 0), step_with(0, 0)).empty());
  CHECK_THAT(difference(step_with(0, 1), step_with(2, 1)),
             Contains("parameter 'w' differs by 1 before any step"));
  CHECK_THAT(difference(step_with(1, 0), step_with(1, 2)),
             Contains("the gradient of 'w' differs by 1: with 2 ranks, is each sample"));
}

// Convolutions with batch norm amplify it to some per cent in three steps of float32.
TEST_CASE("a late difference counts if it is much larger than that of a control run", "[prove]") {
  const auto run_with = [](int ranks, double first, double second) {
    Run run{ranks, {step_with(1, first), step_with(1, second)}};
    run.steps[1].step = 2;
    return run;
  };
  const Run reference = run_with(1, 1, 1);
  const auto compared = [&](double first, double second, const Run& control) {
    return compare(reference, run_with(2, first, second), 1e-3, &control);
  };
  const Run quiet = run_with(1, 1, 1 + 1e-6);
  const Run loud = run_with(1, 1 + 1e-2, 1 + 1e-2);
  CHECK(compare(reference, run_with(2, 1, 1.03), 1e-3).may_be_rounding);
  CHECK_FALSE(compare(reference, run_with(2, 1.03, 1), 1e-3).may_be_rounding);
  CHECK(compared(1, 1.03, loud).difference.empty());
  CHECK_THAT(compared(1, 1.03, quiet).difference, Contains("step 2: all gradients are 1.03 times"));
  CHECK_THAT(compared(1, 1.3, loud).difference, Contains("step 2: all gradients are 1.3 times"));
  CHECK_THAT(compared(1.03, 1, loud).difference, Contains("step 1: all gradients are 1.03 times"));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(compared(1, 1.03, run_with(1, 1, kNan)).difference, Contains("step 2: "));
  CHECK_THAT(compared(1, kNan, loud).difference, Contains("step 2: "));
}

// As of float32 through batch norms of a few numbers.
TEST_CASE("a small difference in the first step counts if a control run has none like it",
          "[prove]") {
  const auto run_with = [](int ranks, double other) {
    Run run{ranks, {step_with(1, 1)}};
    run.steps[0].parameters.push_back({"other", 2, {}, sketch(std::vector{1.0, other}, 1)});
    return run;
  };
  const Run reference = run_with(1, 1);
  const Comparison alone = compare(reference, run_with(2, 1.01), 1e-3);
  CHECK(alone.may_be_rounding);
  CHECK_THAT(alone.difference, Contains("the gradient of 'other' differs by 0.0"));
  const auto compared = [&](double other, double of_control) {
    const Run control = run_with(1, of_control);
    return compare(reference, run_with(2, other), 1e-3, &control).difference;
  };
  CHECK(compared(1.01, 0.99).empty());
  CHECK_THAT(compared(1.01, 1.0001),
             Contains("step 1: the gradient of 'other' differs by 0.0") &&
                 Contains(" (changing only the last bits of the parameters changes one by "));
  CHECK_FALSE(compare(reference, run_with(2, 2), 1e-3).may_be_rounding);
}

TEST_CASE("ddp-prove's command line", "[prove]") {
  const Options options =
      parse_options({"--steps", "5", "--tolerance=1e-6", "1,2,4", "--oversubscribe", "./a", "-n"});
  CHECK(options.steps == 5);
  CHECK(options.tolerance == 1e-6);
  CHECK(options.ranks == std::vector<int>{1, 2, 4});
  CHECK(options.command == Strings{"--oversubscribe", "./a", "-n"});
  for (const Strings& wrong : std::vector<Strings>{{},
                                                   {"1,2"},
                                                   {"1", "./a"},
                                                   {"0,2", "./a"},
                                                   {"1,x", "./a"},
                                                   {"--steps"},
                                                   {"--steps", "0", "1,2", "./a"},
                                                   {"--tolerance", "nan", "1,2", "./a"},
                                                   {"--bind", "numa", "1,2", "./a"},
                                                   {"1,2", "--bindd", "numa", "./a"}}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_options(wrong), launcher::LaunchError);
  }
  const std::string place = " is a flag of ddp-prove: give it before the numbers of ranks";
  CHECK_THROWS_WITH(parse_options({"1,2", "--steps", "50", "./a"}), Contains("'--steps'" + place));
  CHECK_THROWS_WITH(parse_options({"1,2", "--tolerance=0.1", "./a"}),
                    Contains("'--tolerance'" + place));
  CHECK_THAT(prove({"--help"}).out, Contains("Usage: ddp-prove"));
  test::ChildProcess lost({DDP_PROVE_PATH, "--help"}, {.stdout_path = "/dev/full"});
  CHECK(lost.wait() == 2);  // 1 says that models differ
  CHECK_THAT(lost.err(), Contains("ddp-prove: cannot write to stdout: No space left"));
}

TEST_CASE("ddp-launch's flags must leave it the numbers of ranks, and one run each", "[prove]") {
  for (const Strings& flags : std::vector<Strings>{{"-n", "4"},
                                                   {"--nproc_per_node=1"},
                                                   {"--nnodes=2", "--master_addr=node7"},
                                                   {"--max_restarts=1"},
                                                   {"--dry_run"},
                                                   {"--version"},
                                                   {"--detach"}}) {
    CAPTURE(flags);
    Strings args = {"1,2"};
    args.insert(args.end(), flags.begin(), flags.end());
    args.push_back("./a");
    CHECK_THROWS_WITH(parse_options(args), Contains("leave out"));
  }
}

TEST_CASE("a program that is right passes, and is ended after the steps", "[prove]") {
  for (const std::string program : {"none", "none, folded", "none, skips"}) {
    CAPTURE(program);
    const Result result = prove_worker(program);
    CHECK(result.exit_code == 0);
    CHECK_THAT(result.out,
               Contains("1 rank: 3 steps of 60 samples\n2 ranks: gradients ") &&
                   Contains("\n3 ranks: gradients ") &&
                   Contains("\nthe same model with any of these numbers of ranks\n"
                            "all these steps have 60 samples: --steps 4 or more, beyond "
                            "the end of an epoch") &&
                   !Contains("trained to the end"));
    CHECK(result.err.empty() == (program != "none, skips"));
  }
}

TEST_CASE("steps are described in a line, however many", "[prove]") {
  CHECK_THAT(prove_worker("none, short batch").out,
             Contains("1 rank: 3 steps of 31 to 60 samples\n") && !Contains("--steps"));
  CHECK_THAT(prove({"--steps", "1", "1,2", DDP_PROVE_WORKER_PATH, "none"}).out,
             Contains("1 rank: 1 step of 60 samples\n"));
  CHECK_THAT(prove({"--steps", "1000", "1,2", DDP_PROVE_WORKER_PATH, "none"}).out,
             Contains("\nall these steps have 60 samples, and the program ended after 5 "
                      "of 1000 steps: one that runs beyond the end of an epoch"));
}

TEST_CASE("a program that is right but amplifies rounding passes, which is said", "[prove]") {
  const Result result = prove_worker("none, chaotic");
  CHECK(result.exit_code == 0);
  CHECK_THAT(
      result.out,
      Contains(
          "\n1 rank, starting from parameters that differ in their last bits: gradients within") &&
          Contains("of these numbers of ranks, but for rounding, which grows\n"));
}

TEST_CASE("mistakes are found and explained", "[prove]") {
  check_found("sum",
              "step 1: all gradients are 3 times those with 1 rank: they are summed over ranks");
  check_found("divided",
              "step 1: all gradients are 0.3333 times those with 1 rank: they are divided");
  check_found(
      "factor",
      "step 1: all gradients are 0.5 times those with 1 rank: multiply the mean loss by what "
      "begin_step returns");
  check_found("factor, short batch", "step 2: the gradient of ");
  CHECK_THAT(prove_worker("factor, short batch", "1,3").err,
             Contains("this step has 31 samples and the one before 60: is the mean loss multiplied "
                      "by what begin_step returns?"));
  check_found("same data", "step 1: the gradient of ");
  check_found("seed", "step 1: parameter 'weight' differs by 0.3");
  check_found("batch of a rank", "step 1: samples: 60 with 1 rank, but 180 with 3 ranks");
  check_found("rate", "step 2: parameter ");
}

TEST_CASE("every engine of a program is compared, and named", "[prove]") {
  const Result result = prove_worker("gan");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("1 rank: engine 1: 3 steps of 60 samples; engine 2: 3 steps of "
                                  "60 samples\n2 ranks: gradients ") &&
                             Contains("('weight', engine ") &&
                             Contains("\nthe same model with any of these numbers of ranks\n"
                                      "all these steps have 60 samples: --steps 4 or more, "));
  CHECK_THAT(prove_worker("gan, any order").out, Contains("the same model"));
  check_found("gan, sum", "engine 2, step 1: all gradients are 3 times those with 1 rank");
  CHECK_THAT(prove_worker("gan, warm-up").out,
             Contains("engine 1: 1 step of 60 samples; engine 2: 3 steps of 60 samples; engine 3: "
                      "3 steps of 60 samples\n") &&
                 Contains("the same model"));
}

TEST_CASE("an engine that was compared in few steps or none is not said to be the same",
          "[prove]") {
  const auto check_unfinished = [](const std::string& program, const std::string& steps) {
    CAPTURE(program);
    const Result result = prove_worker(program, "1,2");
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.out, Contains("\n2 ranks: gradients ") && !Contains("the same model"));
    CHECK_THAT(result.err, Contains("ddp-prove: no difference was found, but too few steps were "
                                    "compared: " +
                                    steps));
  };
  check_unfinished("gan, rare", "engine 1: 3 steps; engine 2: 1 step");
  check_unfinished("gan, short", "engine 1: 3 steps; engine 2: 0 steps");
}

// Rank 0 alone may train as one rank does.
TEST_CASE("ranks that do not train the same model fail their run", "[prove]") {
  const Result result = prove_worker("rate of a rank");
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err,
             Contains("replicas have diverged: step 2: parameter 'weight' of rank 1 (") &&
                 Contains("ddp-prove: the run with 2 ranks ended with exit code 3"));
}

TEST_CASE("a run that fails, and a program without an engine", "[prove]") {
  const Result failed = prove({"1,2", "sh", "-c", "exit 5"});
  CHECK(failed.exit_code == 5);
  CHECK_THAT(failed.err, Contains("ddp-prove: the run with 1 rank ended with exit code 5"));
  CHECK(prove({"1,2", "sh", "-c", "exit 1"}).exit_code == 2);  // 1 says that the models differ
  const Result ignored =                                       // whoever starts it ignores SIGCHLD
      run({"/bin/sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", DDP_PROVE_PATH, "1,2", "sh", "-c",
           "exit 5"});
  CHECK(ignored.exit_code == 5);
  CHECK_THAT(ignored.err, Contains("ended with exit code 5"));
  const test::TemporaryDirectory folder;
  std::filesystem::copy(DDP_PROVE_PATH, folder / "ddp-prove");
  const Result alone = run({(folder / "ddp-prove").string(), "1,2", "true"});
  CHECK(alone.exit_code == 127);
  CHECK_THAT(alone.err, Contains("ddp-prove: cannot run '" + (folder / "ddp-launch").string() +
                                 "': No such file or directory\n"));
  const Result none = prove_worker("no engine");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, Contains("the run with 1 rank made no step"));
}

TEST_CASE("a full disk does not say that models differ", "[prove]") {
  const Result result = run({"/bin/sh", "-c", "exec \"$@\" >/dev/full", "sh", DDP_PROVE_PATH, "1,2",
                             DDP_PROVE_WORKER_PATH, "none"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("ddp-prove: cannot write to stdout: No space left on device"));
}

TEST_CASE("whatever ends ddp-prove, it leaves no files", "[prove]") {
  using namespace std::chrono_literals;
  for (const int signal_number : {SIGHUP, SIGTERM, SIGKILL}) {
    CAPTURE(signal_number);
    const test::TemporaryDirectory folder;
    test::ChildProcess child({DDP_PROVE_PATH, "1,2", "sh", "-c", "echo it runs >&2; sleep 60"},
                             {.environment = {{"TMPDIR", folder.path()}}});
    child.wait_for_output("it runs");
    child.send_signal(signal_number);
    CHECK(child.wait() == 128 + signal_number);
    const Deadline deadline = Deadline::after(5 * 2s);  // the job may end after ddp-prove
    while (test::entries_of(folder.path()) > 0 && !deadline.passed()) {
      std::this_thread::sleep_for(10ms);
    }
    CHECK(test::entries_of(folder.path()) == 0);
  }
}

}  // namespace ddp::prove
