// SPDX-License-Identifier: MIT
//
// What the built ddp-launch reports about a worker that crashes, and that the crash handler does
// not change how the worker ends.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

#include "launcher/verdict/elf_image.h"
#include "launcher/verdict/source_lines.h"
#include "support/files.h"
#include "support/launch.h"
#include "support/scoped_variable.h"

using namespace ddp::test::launch;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using ddp::test::lines_of;
using ddp::test::TemporaryDirectory;

namespace {

Result crash(const std::string& how) {
  return run(command({DDP_CRASHING_WORKER_PATH, how}), kStopBound);
}

// The innermost function of the reported stack; empty if there is none.
std::string innermost_frame(const Result& result) {
  const Strings lines = lines_of(result.err);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i] == "ddp-launch: where rank 0 crashed:") return lines[i + 1];
  }
  return "";
}

}  // namespace

TEST_CASE("a verdict says in which functions a worker crashed", "[launcher][crash]") {
  const Result result = crash("touch");
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(innermost_frame(result),
             Matches(R"( *at \(anonymous namespace\)::touch_forbidden_page\(\) \(.+\))"));
  CHECK_THAT(result.err, Matches(R"([^]*at main \(crashing_worker[^ ]*\)\n[^\n]+\n)"));
  CHECK_THAT(last_line(result.err), Contains("was killed by SIGSEGV"));
}

TEST_CASE("a crash of a program built with -g is reported with lines", "[launcher][crash]") {
  if (std::system("command -v addr2line >/dev/null") != 0) {
    WARN("SKIPPED: there is no addr2line (package binutils)");
    return;
  }
  const Result result = run(command({DDP_CRASHING_WORKER_PATH "_with_lines", "touch"}), kStopBound);
  CHECK_THAT(innermost_frame(result), Contains("touch_forbidden_page() (crashing_worker.cpp:"));
}

TEST_CASE("crashes of threads and stack overflows are reported, too", "[launcher][crash]") {
  CHECK_THAT(innermost_frame(crash("touch-thread")), Contains("touch_forbidden_page()"));
  const Result result = crash("overflow");
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(innermost_frame(result), Contains("call_without_end(int volatile*)"));
}

TEST_CASE("an uncaught exception is reported with the function that threw it",
          "[launcher][crash]") {
  const Result result = crash("throw");
  CHECK(result.exit_code == 128 + SIGABRT);
  CHECK_THAT(innermost_frame(result), Contains("throw_unseen()"));
  CHECK_THAT(last_line(result.err), Contains("was killed by SIGABRT") &&
                                        Contains(" s: std::runtime_error: thrown on purpose"));
}

TEST_CASE("an uncaught exception's text may stand above a long stack trace", "[launcher][crash]") {
  const auto verdict_of = [](const std::string& line) {
    const std::string script =
        "exec >&2; echo \"terminate called after throwing an instance of 'c10::Error'\"; "
        "echo '  what():  shapes differ'; for i in $(seq 64); do echo \"" +
        line + "\"; done; kill -ABRT $$";
    const Result result = run(shell({}, script), kStopBound);
    CHECK(result.exit_code == 128 + SIGABRT);
    return last_line(result.err);
  };
  CHECK_THAT(verdict_of("frame #$i: main"), Contains(" s: c10::Error: shapes differ"));
  CHECK_THAT(verdict_of("#$i main from x.cpp:1"), Contains(" s: c10::Error: shapes differ"));
  CHECK_THAT(verdict_of("epoch $i"), !Contains("shapes differ"));  // of an earlier process
}

TEST_CASE("a crash is reported even with a shell between launcher and program",
          "[launcher][crash]") {
  const Result result = run(shell({}, "'" DDP_CRASHING_WORKER_PATH "' touch; exit $?"), kStopBound);
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(innermost_frame(result), Contains("touch_forbidden_page()"));
}

TEST_CASE("a signal sent from outside ends a worker as without the handler", "[launcher][crash]") {
  const Result result = crash("raise");
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(last_line(result.err), Contains("was killed by SIGSEGV"));
}

TEST_CASE("a stack that cannot be read does not change how a worker ends", "[launcher][crash]") {
  const Result result = crash("damaged");
  CHECK(result.exit_code == 128 + SIGABRT);
  CHECK_THAT(last_line(result.err), Contains("was killed by SIGABRT"));
}

TEST_CASE("an unwinder that hangs does not change how a worker ends", "[launcher][crash]") {
  const Result result = crash("stuck");
  CHECK(result.exit_code == 128 + SIGSEGV);
  CHECK_THAT(last_line(result.err), Contains("was killed by SIGSEGV"));
}

TEST_CASE("a program's own handlers override ours", "[launcher][crash]") {
  for (const char* how : {"own-handler", "late-handler"}) {
    const Result result = crash(how);
    CHECK(result.exit_code == 9);
    CHECK(innermost_frame(result).empty());
  }
}

TEST_CASE("a file that is not a program has no functions", "[launcher][crash]") {
  for (const char* path : {"/no/such/file", "/dev/zero", "/proc/self/maps", __FILE__}) {
    const ddp::launcher::ElfImage image(path);
    CHECK_FALSE(image.address_of(0));
    CHECK(image.function_at(0).empty());
  }
  CHECK(ddp::launcher::SourceLines().line_of("/no/such/file", 1).empty());
}

TEST_CASE("a source file's path may have blanks", "[launcher][crash]") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "addr2line").string();
  const ddp::test::ScopedVariable search_path("PATH",
                                              folder.path().string() + ":" + std::getenv("PATH"));
  const auto line_if_answer_is = [&path](const std::string& answer) {
    ddp::test::write_bytes(path, "#!/bin/sh\necho '" + answer + "'\n");
    ::chmod(path.c_str(), 0755);
    return ddp::launcher::SourceLines().line_of("train", 1);
  };
  CHECK(line_if_answer_is("/my work/train.cpp:57") == "train.cpp:57");
  CHECK(line_if_answer_is("/my work/my train.cpp:57 (discriminator 3)") == "my train.cpp:57");
  CHECK(line_if_answer_is("/my work/train.cpp:?").empty());
  CHECK(line_if_answer_is("??:0").empty());
}
