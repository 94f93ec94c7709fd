// SPDX-License-Identifier: MIT
//
// Jobs that find checkpoints of other runs, when the launcher restarts them, or of other data.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "ddp/base/worker_env.h"
#include "run_identity.h"
#include "support/resumable_job.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::test::Arguments;
using ddp::test::ChildProcess;
using ddp::test::ResumableJob;
using ddp::test::TemporaryDirectory;
using ddp::test::operator+;

namespace {

// A small training that keeps the checkpoint of each epoch.
class SmallTraining {
 public:
  SmallTraining() { ddp::test::write_fashion_mnist(set_.path(), {.train = 600, .test = 100}); }

  [[nodiscard]] Arguments flags(const Arguments& more) const {
    return Arguments{"--data-dir", set_.path(), "--keep", "0"} + more;
  }

 private:
  TemporaryDirectory set_;
};

const std::string kRun = "exec \"$0\" \"$@\"";

// Runs the job with one restart. The first attempt gets `first`, the second one `second`, both
// lines of shell.
int restarted(const ResumableJob& job, const Arguments& flags, const std::string& first,
              std::string* output, const std::string& second = kRun) {
  const std::string script =
      "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then " + first + "; else " + second + "; fi";
  ChildProcess process(
      job.command(flags, {"--max_restarts", "1", "--rdzv_id", "mine", "sh", "-c", script}));
  const int code = process.wait(60s);
  *output = process.out() + process.err();
  return code;
}

}  // namespace

TEST_CASE("a restart begins no new training where the first attempt was refused",
          "[resume][restart]") {
  const SmallTraining small;
  ResumableJob job(1);
  std::string output;
  // The other job has the same run id, and was one that its launcher would have restarted, too.
  REQUIRE(restarted(job, small.flags({"--epochs", "1"}), kRun, &output) == 0);
  CHECK(restarted(job, small.flags({"--epochs", "2", "--resume", "none"}), kRun, &output) == 2);
  CHECK_THAT(output, Contains("already has checkpoints") && !Contains("resumed from"));
  CHECK(job.latest() == "model_epoch_1.safetensors\n");
}

TEST_CASE("a restart before the first save begins again from the file that was named",
          "[resume][restart]") {
  const SmallTraining small;
  ResumableJob job(1);
  std::string output;
  (void)job.run(small.flags({"--epochs", "3"}));
  const std::string named = job.file("c/model_epoch_1.safetensors");
  const auto flags = small.flags({"--epochs", "2", "--resume", named});
  REQUIRE(restarted(job, flags, "exit 3", &output) == 0);
  CHECK_THAT(output, Contains("resumed from " + named + " at step"));
  CHECK(job.latest() == "model_epoch_2.safetensors\nmodel_epoch_1.safetensors\n");
}

TEST_CASE("a restart goes on from what the first attempt has saved", "[resume][restart]") {
  const SmallTraining small;
  ResumableJob job(1);
  std::string output;
  (void)job.run(small.flags({"--epochs", "3"}));
  const auto flags =
      small.flags({"--resume", job.file("c/model_epoch_1.safetensors")}) + Arguments{"--epochs"};
  REQUIRE(restarted(job, flags, "\"$0\" \"$@\" 2; exit 3", &output, "exec \"$0\" \"$@\" 4") == 0);
  CHECK_THAT(output, Contains("resumed from " + job.file("c/model_epoch_1").string()) &&
                         Contains("resumed from " + job.file("c/model_epoch_2").string()));
}

TEST_CASE("a job that resumes with other data of the same size says so", "[resume]") {
  const ddp::test::TemporaryDirectory other;
  ddp::test::write_fashion_mnist(other.path(), {.train = 600, .test = 100});
  const std::string images = other / "train-images-idx3-ubyte";
  std::string bytes = ddp::test::bytes_of(images);
  bytes[16] = static_cast<char>(bytes[16] ^ 1);  // of the first sample, which is always compared
  ddp::test::write_bytes(images, bytes);
  const SmallTraining small;
  ResumableJob job(1);
  (void)job.run(small.flags({"--epochs", "1"}));
  CHECK_THAT(job.run(small.flags({"--epochs", "2"})), !Contains("fingerprint"));
  CHECK_THAT(job.run(small.flags({"--epochs", "3", "--data-dir", other.path()})),
             Contains("; train_data_fingerprint was ") && !Contains("test_data_fingerprint"));
}

TEST_CASE("a run is told from others, and its attempts are one", "[resume][restart]") {
  using Variables = std::map<std::string, std::string>;
  const auto identity = [](const Variables& variables, int nodes = 1, int restarts = 3) {
    ddp::WorkerEnv env;
    env.node_count = nodes;
    env.max_restarts = restarts;
    return train::run_identity(env, [&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  const auto error_file = [](const std::string& rest) {
    return Variables{{"TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_" + rest + "/0/error.json"}};
  };
  const std::string run = identity(error_file("x/none_abc/attempt_0"));
  CHECK(run.size() == 16);
  CHECK(identity(error_file("x/none_abc/attempt_1")) == run);
  CHECK(identity(error_file("y/none_def/attempt_0")) != run);
  CHECK(identity(error_file("x/none_abc/attempt_0"), 2) ==
        identity(error_file("y/none_def/attempt_1"), 2));  // rank 0 has moved to another node
  CHECK(identity({{"DDP_LAUNCH_ID", "1"}}) != identity({{"DDP_LAUNCH_ID", "2"}}));
  CHECK(identity({{"DDP_LAUNCH_ID", "1"}}, 1, 0).empty());
}
