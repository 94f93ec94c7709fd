// SPDX-License-Identifier: MIT
//
// Jobs whose rank 0 waits for a disk for longer than the others wait in a collective. Opening a
// file on which another process has a lease takes until that process gives it up.
#include <fcntl.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/threads/becomes_true.h"
#include "support/resumable_job.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::test::Arguments;
using ddp::test::ChildProcess;
using ddp::test::ResumableJob;
using ddp::test::TemporaryDirectory;

namespace {

// A lease on a new file.
class SlowFile {
 public:
  explicit SlowFile(const std::filesystem::path& path)
      : previous_(::signal(SIGIO, SIG_IGN)),  // which says that somebody opens it
        fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)),
        is_slow_(::fcntl(fd_.get(), F_SETLEASE, F_WRLCK) == 0) {}
  SlowFile(const SlowFile&) = delete;
  SlowFile& operator=(const SlowFile&) = delete;
  ~SlowFile() {
    release();
    ::signal(SIGIO, previous_);
  }

  // False on a file system without leases.
  [[nodiscard]] bool is_slow() const { return is_slow_; }
  [[nodiscard]] bool is_awaited() const { return ::fcntl(fd_.get(), F_GETLEASE) != F_WRLCK; }
  void release() { ::fcntl(fd_.get(), F_SETLEASE, F_UNLCK); }

 private:
  sighandler_t previous_;
  ddp::FileDescriptor fd_;
  bool is_slow_;
};

// A save looks whether somebody still writes a file of such a name.
constexpr const char* kOrphan = "model_epoch_9.safetensors.tmp.1.0";

// Runs a job of two ranks that opens the file, which takes twice as long as a rank waits in a
// collective.
void check_that_ranks_wait_for(const std::string& name) {
  const TemporaryDirectory set;
  ddp::test::write_fashion_mnist(set.path(), {.train = 600, .test = 100});
  const ResumableJob training(2);
  std::filesystem::create_directory(training.file("c"));
  SlowFile slow(training.file("c/" + name));
  if (!slow.is_slow()) {
    WARN("SKIPPED: no leases on this file system");
    return;
  }
  ChildProcess job(training.command({"--data-dir", set.path(), "--max-steps", "5"}),
                   {.environment = {{"DDP_TIMEOUT", "3"}}});
  REQUIRE(ddp::becomes_true([&] { return slow.is_awaited(); }, 60s, 10ms));
  CHECK_THROWS_AS(job.wait(6s), ddp::TimeoutError);
  slow.release();
  CHECK(job.wait(60s) == 0);
  INFO(job.err());
  CHECK(training.latest() == "model_epoch_0_step_5.safetensors\n");
}

}  // namespace

TEST_CASE("the other ranks wait while rank 0 opens the checkpoint directory", "[resume][disk]") {
  check_that_ranks_wait_for(".lock");
}

TEST_CASE("the other ranks wait while rank 0 saves before --max-steps ends the job",
          "[resume][disk]") {
  check_that_ranks_wait_for(kOrphan);
}

TEST_CASE("ranks that wait in vain for a rank that saves are told so", "[resume][disk]") {
  const TemporaryDirectory set;
  ddp::test::write_fashion_mnist(set.path(), {.train = 600, .test = 100});
  const ResumableJob training(2);
  std::filesystem::create_directory(training.file("c"));
  SlowFile slow(training.file(std::string("c/") + kOrphan));
  if (!slow.is_slow()) {
    WARN("SKIPPED: no leases on this file system");
    return;
  }
  ChildProcess job(training.command({"--data-dir", set.path(), "--checkpoint-every", "1"}),
                   {.environment = {{"DDP_TIMEOUT", "5"}}});
  CHECK(job.wait(60s) == 1);
  CHECK_THAT(job.err(), Contains(", outside the library, saving ") &&
                            Contains("/c/model_epoch_0_step_1.safetensors for "));
}
