// SPDX-License-Identifier: MIT
//
// What the built ddp-launch reports about a failed job.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>

#include "support/files.h"
#include "support/job.h"
#include "support/launch.h"

using namespace ddp::test::launch;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;
using ddp::test::ChildProcess;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;

namespace {

Result run_worker(int ranks, const std::string& mode, const std::string& backend) {
  return run(command({"-n", std::to_string(ranks), DDP_COLLECTIVE_WORKER_PATH, mode, backend}),
             kStopBound);
}

// A control group, of version 1 or 2, with a small memory limit; none if this process may not
// create one.
class SmallCgroup {
 public:
  explicit SmallCgroup(const char* mebibytes) {
    const std::string name = "/ddp-test-" + std::to_string(::getpid());
    if (make("/sys/fs/cgroup/memory" + name, "memory.limit_in_bytes", mebibytes)) {
      // Limits swap, too; otherwise pages go to swap. The file is absent where swap is not
      // accounted.
      std::ofstream(*folder_ + "/memory.memsw.limit_in_bytes") << mebibytes << "M";
    } else if (make("/sys/fs/cgroup" + name, "memory.max", mebibytes)) {
      std::ofstream(*folder_ + "/memory.swap.max") << "0";
    }
  }
  ~SmallCgroup() {
    if (folder_) ::rmdir(folder_->c_str());
  }
  SmallCgroup(const SmallCgroup&) = delete;
  SmallCgroup& operator=(const SmallCgroup&) = delete;

  [[nodiscard]] const std::optional<std::string>& folder() const { return folder_; }

 private:
  bool make(const std::string& path, const std::string& limit, const char* mebibytes) {
    if (::mkdir(path.c_str(), 0755) != 0) return false;
    folder_ = path;
    std::ofstream file(path + "/" + limit);
    file << mebibytes << "M" << std::flush;
    if (file.good()) return true;
    ::rmdir(path.c_str());
    folder_.reset();
    return false;
  }

  std::optional<std::string> folder_;
};

}  // namespace

TEST_CASE("the error that a worker records is in the verdict", "[launcher][verdict]") {
  const Result result =
      run(shell({"-n", "2"},
                "[ $RANK = 1 ] || exec sleep 1000; "
                "printf %s '{\"message\": {\"message\": \"ValueError: no\\nsecond\", "
                "\"extraInfo\": {\"timestamp\": \"1\", \"step\": \"12\"}}}' "
                ">$TORCHELASTIC_ERROR_FILE; exit 7"),
          kStopBound);
  CHECK(result.exit_code == 7);
  CHECK_THAT(
      last_line(result.err),
      Matches("ddp-launch: rank 1 \\([^,]+, pid [0-9]+\\) exited with code 7 after [0-9.]+ s, in "
              "step 12: ValueError: no second; 1 other rank stopped because of it"));
}

// With PyTorch, whose records do not say that a peer is the cause. Between the two records more
// time passes than a tick of the clock by which the system dates files.
TEST_CASE("a rank that takes long to end is the cause if its record is the older one",
          "[launcher][verdict]") {
  const TemporaryDirectory folder;
  const std::string script =
      "record() { echo \"{\\\"message\\\": {\\\"message\\\": \\\"$1\\\", \\\"extraInfo\\\": "
      "{}}}\" >$TORCHELASTIC_ERROR_FILE; }; "
      "if [ $RANK = 0 ]; then echo $$ >\"$0/pid\"; until [ -e \"$0/failed\" ]; do sleep 0.01; "
      "done; "
      "sleep 0.05; record 'connection closed'; exit 1; fi; "
      "until [ -s \"$0/pid\" ]; do sleep 0.01; done; record 'ValueError: no'; touch \"$0/failed\"; "
      "while kill -0 $(cat \"$0/pid\") 2>/dev/null; do sleep 0.01; done; exit 1";
  const Result result =
      run(command({"-n", "2", "--", "sh", "-c", script, folder.path().string()}), kStopBound);
  CHECK_THAT(last_line(result.err), Contains("rank 1 (") && Contains(": ValueError: no"));
}

TEST_CASE("a record that is not JSON is ignored", "[launcher][verdict]") {
  const Result result = run(shell({}, "printf '{\"mess' >$TORCHELASTIC_ERROR_FILE; exit 7"));
  CHECK(result.exit_code == 7);
  CHECK_THAT(last_line(result.err),
             Matches("ddp-launch: rank 0 \\([^,]+, pid [0-9]+\\) exited with code 7 "
                     "after [0-9.]+ s"));
}

TEST_CASE("an outer launcher's error file that is a pipe is not waited for",
          "[launcher][verdict]") {
  const TemporaryDirectory folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const Result result =
      run(shell({}, "exit 7"), kStopBound, {.environment = {{"TORCHELASTIC_ERROR_FILE", pipe}}});
  CHECK(result.exit_code == 7);
  CHECK_THAT(last_line(result.err), Contains("exited with code 7"));
}

TEST_CASE("the record of a successful job is not reported", "[launcher][verdict]") {
  const Result result = run(shell({}, "echo '{\"message\": \"x\"}' >$TORCHELASTIC_ERROR_FILE"));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("each rank has its own error file, which is removed with the job",
          "[launcher][verdict]") {
  const TemporaryDirectory folder;
  const Result result = run(shell({"-n", "3", "--show", "all"}, "echo $TORCHELASTIC_ERROR_FILE"),
                            ChildProcess::kDefaultTimeout,
                            {.environment = {{"TMPDIR", folder.path().string()},
                                             {"TORCHELASTIC_ERROR_FILE", "/not/for/workers"}}});
  for (const std::string rank : {"0", "1", "2"}) {
    CHECK_THAT(result.out, Contains("/attempt_0/" + rank + "/error.json\n"));
  }
  CHECK_THAT(result.out, Contains(folder.path().string()) && !Contains("/not/for/workers"));
  CHECK(ddp::test::entries_of(folder.path()) == 0);
}

TEST_CASE("the error files are removed even if the agent is killed", "[launcher][verdict]") {
  const TemporaryDirectory folder;
  ChildProcess child(shell({}, "echo agent=$PPID. >&2; exec sleep 1000"),
                     {.environment = {{"TMPDIR", folder.path().string()}}});
  child.wait_for_output(".");
  CHECK(ddp::test::entries_of(folder.path()) == 1);
  ::kill(pids_in(child.err(), "agent").at(0), SIGKILL);
  CHECK(child.wait(kStopBound) == 128 + SIGKILL);
  CHECK(ddp::test::entries_of(folder.path()) == 0);
}

TEST_CASE("error files are in /tmp if the folder that TMPDIR names is missing",
          "[launcher][verdict]") {
  const Result result =
      run(shell({}, "echo \"file='$TORCHELASTIC_ERROR_FILE'\""), ChildProcess::kDefaultTimeout,
          {.environment = {{"TMPDIR", "/no/such/folder"}, {"TORCHELASTIC_ERROR_FILE", "/x"}}});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, StartsWith("file='/tmp/.ddp-launch-private-"));
  CHECK(result.err.empty());
}

TEST_CASE("a job runs even without a folder for error files, and says so", "[launcher][verdict]") {
  const auto run_without_folders = [](const Strings& argv) {
    const std::string script =
        "for folder in /tmp /dev/shm; do mount --bind $folder $folder && "
        "mount -o remount,bind,ro $folder || exit 1; done; exec \"$@\"";
    Strings all = {"/usr/bin/unshare", "--mount", "sh", "-c", script, "-"};
    all.insert(all.end(), argv.begin(), argv.end());
    return run(all, ChildProcess::kDefaultTimeout,
               {.environment = {{"TMPDIR", "/no/such/folder"}}});
  };
  if (run_without_folders({"true"}).exit_code != 0) {
    std::fprintf(stderr, "SKIPPED: /tmp cannot be made read-only here (not root?)\n");
    return;
  }
  const Result result = run_without_folders(shell({}, "echo \"file='$TORCHELASTIC_ERROR_FILE'\""));
  CHECK(result.exit_code == 0);
  CHECK(result.out == "file=''\n");
  CHECK(lines_of(result.err).size() == 1);
  CHECK_THAT(result.err, Contains("neither in /no/such/folder nor in /tmp") &&
                             Contains("Read-only file system"));
}

TEST_CASE("an outer launcher gets the error, too", "[launcher][verdict]") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "error.json").string();
  const Result result = run(shell({"-n", "2"}, "[ $RANK = 1 ] && exit 7; sleep 1000"), kStopBound,
                            {.environment = {{"TORCHELASTIC_ERROR_FILE", path}}});
  CHECK(result.exit_code == 7);
  CHECK_THAT(ddp::test::bytes_of(path),
             Contains("exited with code 7") && Contains("\"errorCode\":7"));
}

TEST_CASE("a rank of libddp that fails is named with its error and step", "[launcher][verdict]") {
  for (const std::string& backend : ddp::test::cpu_backends()) {
    CAPTURE(backend);
    const Result result = run_worker(3, "fail", backend);
    CHECK(result.exit_code == 3);
    CHECK_THAT(
        last_line(result.err),
        Matches("ddp-launch: rank 2 \\([^,]+, pid [0-9]+\\) exited with code 3 after [0-9.]+ s, in "
                "step 5: thrown on purpose; 2 other ranks stopped because of it"));
  }
}

TEST_CASE("an exception that leaves a step is the cause, not what it does to the other ranks",
          "[launcher][verdict]") {
  for (const std::string& backend : ddp::test::cpu_backends()) {
    CAPTURE(backend);
    const Result result = run_worker(2, "fail-in-step", backend);
    CHECK_THAT(last_line(result.err),
               Contains("rank 1 (") && Contains("in step 3: thrown on purpose; 1 other rank"));
  }
}

TEST_CASE("an error of CUDA is reported in CUDA's words", "[launcher][verdict]") {
  const Result result = run_worker(2, "fail-cuda", "shm");
  CHECK(result.exit_code == 3);
  CHECK_THAT(last_line(result.err), Contains("rank 1 (") && Contains(", in step 5: "));
  CHECK_THAT(last_line(result.err), Contains("[cuda] cuda") || Contains("has no CUDA support"));
}

TEST_CASE("the step of a rank that crashes is known", "[launcher][verdict]") {
  const Result result = run_worker(2, "crash", "shm");
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(last_line(result.err), Contains("rank 1 (") && Contains(" was killed by SIGSEGV") &&
                                        Contains(", in step 5;"));
}

TEST_CASE("the victims of a failure are not named as the cause, even if they end first",
          "[launcher][verdict]") {
  for (const std::string& backend : ddp::test::cpu_backends()) {
    CAPTURE(backend);
    const Result result = run_worker(3, "fail-slowly", backend);
    CHECK_THAT(last_line(result.err),
               Contains("rank 2 (") && Contains("exited with code 3") &&
                   Contains("thrown on purpose; 2 other ranks stopped because of it"));
    CHECK(result.exit_code == 3);
  }
}

TEST_CASE("a rank that returned 0 too early is named with its exit code", "[launcher][verdict]") {
  const Result result = run_worker(2, "early", "shm");
  CHECK(result.exit_code == 3);
  CHECK_THAT(last_line(result.err), Contains("rank 1 (") && Contains("exited with code 3") &&
                                        Contains("; rank 0 had ended with code 0"));
}

TEST_CASE("a rank that ends with 0 and never joins those that wait for it is named at once",
          "[launcher][verdict]") {
  // The other ranks wait by then.
  const std::string script =
      "[ $RANK = 1 ] && { sleep 5; exit 0; }; exec '" DDP_COLLECTIVE_WORKER_PATH "' loop shm";
  ChildProcess child(shell({"-n", "3"}, script));
  child.wait_for_output(
      "ddp-launch: rank 1 ended with code 0 without init_process_group, where ranks 0, 2 wait for "
      "the time that the program or DDP_START_TIMEOUT sets\n");
  child.send_signal(SIGTERM);
  CHECK(child.wait(kStopBound) == 128 + SIGTERM);
}

TEST_CASE("a rank that gives up its wait for a rank that ended with 0 names it",
          "[launcher][verdict]") {
  const TemporaryDirectory folder;
  const std::string script =
      "[ $RANK = 1 ] && { touch \"$0/ends\"; exit 0; }; until [ -e \"$0/ends\" ]; do sleep 0.01; "
      "done; DDP_START_TIMEOUT=2 exec '" DDP_COLLECTIVE_WORKER_PATH "' loop shm patient";
  const Result result =
      run(command({"-n", "2", "--", "sh", "-c", script, folder.path().string()}), kStopBound);
  CHECK(result.exit_code != 0);
  CHECK_THAT(last_line(result.err), Contains("rank 0 (") && Contains("missing: rank 1") &&
                                        Contains("; rank 1 had ended with code 0"));
}

TEST_CASE("victims that abort are not named as the cause", "[launcher][verdict]") {
  const Result result = run_worker(3, "fail-among-aborters", "shm");
  CHECK_THAT(last_line(result.err), Contains("rank 2 (") && Contains("exited with code 3"));
  CHECK(result.exit_code == 3);
}

TEST_CASE("failures before ranks have met are reported", "[launcher][verdict]") {
  const Result result = run_worker(2, "sum", "no-such-backend");
  CHECK_THAT(last_line(result.err), Contains(": unknown backend 'no-such-backend'"));
}

TEST_CASE("a kill by the out-of-memory killer is recognised", "[launcher][verdict]") {
  const SmallCgroup group("64");
  if (!group.folder()) {
    std::fprintf(stderr, "SKIPPED: no memory control group can be made here (not root?)\n");
    return;
  }
  // Rank 1 doubles a shell variable repeatedly, which allocates and touches memory. With a
  // sanitizer the launcher has as much, so the kernel is told whom to kill.
  const std::string script =
      "[ $RANK = 1 ] || exec sleep 1000; echo 1000 >/proc/self/oom_score_adj; "
      "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done";
  const Result result =
      run({"/bin/sh", "-c", "echo $$ >" + *group.folder() + "/cgroup.procs && exec \"$0\" \"$@\"",
           DDP_LAUNCH_PATH, "-n", "2", "--", "sh", "-c", script},
          kStopBound);
  CHECK(result.exit_code == 128 + SIGKILL);
  CHECK_THAT(
      last_line(result.err),
      Matches(
          "ddp-launch: rank 1 \\([^,]+, pid [0-9]+\\) was killed by SIGKILL after [0-9.]+ s: out "
          "of memory \\([0-9]+ MiB resident, limit 64 MiB\\); 1 other rank stopped "
          "because of it"));
}

TEST_CASE("a bus error is explained by a small /dev/shm", "[launcher][verdict]") {
  const std::string in_small_shm = "mount -t tmpfs -o size=2m tmpfs /dev/shm && exec \"$0\" \"$@\"";
  if (run({"/usr/bin/unshare", "--mount", "sh", "-c", in_small_shm, "true"}).exit_code != 0) {
    std::fprintf(stderr, "SKIPPED: /dev/shm cannot be replaced here (not root?)\n");
    return;
  }
  const Result result = run({"/usr/bin/unshare", "--mount", "sh", "-c", in_small_shm,
                             DDP_LAUNCH_PATH, "-n", "1", "--", "sh", "-c", "kill -BUS $$"});
  CHECK(result.exit_code == 128 + SIGBUS);
  CHECK_THAT(last_line(result.err),
             Contains("was killed by SIGBUS") &&
                 Contains("/dev/shm is small (2 of 2 MiB free); in a container"));
}

TEST_CASE("the verdict is right although no error record fits on the disk", "[launcher][verdict]") {
  const TemporaryDirectory folder;
  const std::string disk = folder.path().string();
  const std::string with_full_disk = "mount -t tmpfs -o size=64k none " + disk +
                                     " && { head -c 1M /dev/zero >" + disk +
                                     "/fill 2>/dev/null; TMPDIR=" + disk + " exec \"$0\" \"$@\"; }";
  if (run({"/usr/bin/unshare", "--mount", "sh", "-c", with_full_disk, "true"}).exit_code != 0) {
    std::fprintf(stderr, "SKIPPED: no file system can be mounted here (not root?)\n");
    return;
  }
  const bool has_logs = GENERATE(false, true);
  Strings argv = {"/usr/bin/unshare", "--mount",       "sh", "-c",
                  with_full_disk,     DDP_LAUNCH_PATH, "-n", "3"};
  if (has_logs) argv.insert(argv.end(), {"--log-dir", disk + "/logs"});
  argv.insert(argv.end(), {DDP_COLLECTIVE_WORKER_PATH, "fail", "tcp"});
  const Result result = run(argv);
  CHECK(result.exit_code == 3);
  CHECK_THAT(last_line(result.err),
             Contains("ddp-launch: rank 2 (") && Contains("in step 5: thrown on purpose"));
  CHECK_THAT(result.err, !Contains("all of rank 2's stderr"));
}

TEST_CASE("a kill by a user is not reported as out of memory", "[launcher][verdict]") {
  const Result result = run(shell({"-n", "2"}, "[ $RANK = 1 ] && kill -KILL $$; exec sleep 1000"));
  CHECK_THAT(last_line(result.err),
             Contains("rank 1 ") && Contains("was killed by SIGKILL") && !Contains("memory"));
}
