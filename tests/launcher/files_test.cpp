// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ddp/base/file_descriptor.h"
#include "launcher/launch_error.h"
#include "launcher/output/log_file.h"
#include "launcher/output/log_route.h"
#include "launcher/run/private_folder.h"
#include "launcher/run/run_folder.h"
#include "launcher/verdict/crash_report.h"
#include "launcher/verdict/error_file.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/scoped_variable.h"

using namespace ddp::launcher;
using Catch::Matchers::Contains;
using ddp::test::bytes_of;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

namespace {

std::optional<ddp::ErrorRecord> parse(const std::string& text) {
  const TemporaryDirectory folder;
  write_bytes(folder / "error.json", text);
  return read_error_record((folder / "error.json").string());
}

JobLayout job_of(const std::string& run_id) {
  JobLayout layout;
  layout.run_id = run_id;
  return layout;
}

LogOptions into(const std::filesystem::path& directory) {
  LogOptions options;
  options.directory = directory.string();
  return options;
}

// The destination of a stream: "console", "file", "both" or "nowhere".
std::string way(const LogOptions& options, int rank, Channel channel) {
  const Route found = route(options, rank, rank, channel);
  if (found.to_console) return found.to_file ? "both" : "console";
  return found.to_file ? "file" : "nowhere";
}

}  // namespace

TEST_CASE("the launcher reads the records of libddp", "[error-file]") {
  const auto record = parse(ddp::to_json({"größe \"1\"\nline two", 457, true}, 1700000000));
  REQUIRE(record);
  CHECK(record->message == "größe \"1\"\nline two");
  CHECK(record->step == 457);
  CHECK(record->caused_by_peer);
  CHECK(record->tells_cause);
  CHECK(parse(ddp::to_json({.message = "why"}, 1))->tells_cause);
}

TEST_CASE("both of torchrun's formats are read", "[error-file]") {
  const auto full = parse(
      R"({"message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "Traceback\n",
          "timestamp": "1700000000"}}})");
  REQUIRE(full);
  CHECK(full->message == "ValueError: no");
  CHECK_FALSE(full->step);
  CHECK_FALSE(full->caused_by_peer);
  CHECK_FALSE(full->tells_cause);
  const auto brief = parse(R"({"message": "just text", "timestamp": 1700000000})");
  REQUIRE(brief);
  CHECK(brief->message == "just text");
}

TEST_CASE("an invalid error file is ignored", "[error-file]") {
  for (const std::string text :
       {"", "{", "null", "[1]", "{}", R"({"message": 3})", R"({"message": {}})",
        R"({"message": {"message": null}})", "\xff\xfe", R"({"message": {"message": "a)"}) {
    CAPTURE(text);
    CHECK_FALSE(parse(text));
  }
  CHECK(parse(R"({"message": {"message": "m", "extraInfo": 3}})")->message == "m");
  CHECK_FALSE(parse(R"({"message": {"message": "m", "extraInfo": {"step": "x"}}})")->step);
  CHECK(parse(R"({"message": {"message": "m", "extraInfo": {"step": 7}}})")->step == 7);
  CHECK_FALSE(parse(R"({"message": {"message": "m", "extraInfo": {"step": -3}}})")->step);
  CHECK(parse(R"({"message": {"message": "m", "extraInfo": {"hang": 5}}})")->hang.empty());
  CHECK_FALSE(read_error_record("/no/such/file"));
  CHECK_FALSE(read_error_record(""));
  CHECK_FALSE(read_error_record("/dev"));
  CHECK_FALSE(read_error_record("/dev/zero"));
  const TemporaryDirectory folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);  // an open would wait for a writer
  CHECK_FALSE(read_error_record(folder / "pipe"));
  CHECK(read_crash_record(folder / "pipe", SIGSEGV).empty());
}

// The stack of whoever writes it again is not deep enough for every value that can be read.
TEST_CASE("an error file that is nested too deeply is ignored", "[error-file]") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  const auto with = [](const std::string& key, const std::string& value) {
    return R"({"message":{"message":"m","extraInfo":{")" + key + "\":" + value + "}}}";
  };
  for (const std::string key : {"step", "caused_by_peer", "hang", "else"}) {
    CAPTURE(key);
    const auto record = parse(with(key, nested(20)));
    REQUIRE(record);
    CHECK_FALSE(record->step);
    CHECK_FALSE(record->caused_by_peer);
    CHECK_FALSE(parse(with(key, nested(300000))));
  }
  const std::string brackets = R"(\")" + std::string(1000, '[');
  CHECK(parse(R"({"message":")" + brackets + R"("})")->message == "\"" + brackets.substr(2));
  const TemporaryDirectory folder;
  const std::string to = (folder / "to").string();
  write_bytes(folder / "from", R"({"message":"m","x":)" + nested(300000) + "}");
  pass_on_error_record(folder / "from", to, "the verdict", 7);
  CHECK(read_error_record(to)->message == "the verdict");
}

TEST_CASE("an outer launcher gets the record with the exit code", "[error-file]") {
  const TemporaryDirectory folder;
  const std::string from = (folder / "from").string();
  const std::string to = (folder / "to").string();
  SECTION("of the worker that failed") {
    write_bytes(from, ddp::to_json({.message = "why"}, 1700000000));
    pass_on_error_record(from, to, "the verdict", 7);
    CHECK(read_error_record(to)->message == "why");
  }
  SECTION("or of our own, if it has left none") {
    pass_on_error_record(from, to, "the verdict", 7);
    CHECK(read_error_record(to)->message == "the verdict");
  }
  CHECK_THAT(bytes_of(to), Contains("\"errorCode\":7") && Contains("\"timestamp\":\""));
  write_bytes(to, std::string(10000, 'x'));
  pass_on_error_record("", to, "shorter", 7);
  CHECK(read_error_record(to)->message == "shorter");
  pass_on_error_record(from, "", "nobody asks", 7);
  pass_on_error_record(from, "/no/such/folder/file", "no place", 7);
}

// It may be sparse, and larger than the memory.
TEST_CASE("of a crash record that is too large only the beginning is read", "[error-file]") {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder / "crash.txt";
  const std::string frames = "\n\nat 1234\ncall 5678\n";
  const auto place = [&](std::size_t at) {
    write_bytes(path, "");
    std::filesystem::resize_file(path, at);
    std::ofstream(path, std::ios::app) << frames;
    return read_crash_record(path, SIGSEGV);
  };
  CHECK(place(4 << 20) == std::vector<std::string>{"0x1234", "0x5677"});
  CHECK(place(32 << 20).empty());
}

TEST_CASE("a run has a folder for each attempt and rank", "[run-folder]") {
  const TemporaryDirectory folder;
  RunFolder files(into(folder / "deep" / "logs"), job_of("cafe"), "");
  CHECK(files.begin_attempt(2, 0).empty());
  const std::string root = (folder / "deep/logs/cafe").string();
  CHECK(files.attempt().error_file(1) == root + "/attempt_0/1/error.json");
  CHECK(files.attempt().log_file(0, Channel::kOut) == root + "/attempt_0/0/stdout.log");
  CHECK(files.attempt().log_file(1, Channel::kErr) == root + "/attempt_0/1/stderr.log");
  CHECK(files.begin_attempt(2, 1).empty());
  CHECK(files.attempt().error_file(1) == root + "/attempt_1/1/error.json");
  CHECK(std::filesystem::is_directory(root + "/attempt_1/1"));
  CHECK(files.remark().empty());
}

TEST_CASE("a run does not overwrite the files of another", "[run-folder]") {
  const TemporaryDirectory folder;
  for (const std::string name : {"job", "job_2", "job_3"}) {
    RunFolder files(into(folder.path()), job_of("job"), "");
    CHECK(files.begin_attempt(2, 0).empty());
    CHECK(files.attempt().error_file(0) == (folder / name / "attempt_0/0/error.json").string());
  }
}

TEST_CASE("nodes that share a file system have folders of their own", "[run-folder]") {
  const TemporaryDirectory folder;
  JobLayout job = job_of("job");
  job.node_count = 2;
  job.node_rank = 1;
  const RunFolder files(into(folder.path()), job, "");
  CHECK(std::filesystem::is_directory(folder / "job_node1"));
}

TEST_CASE("a run's name cannot lead out of the folder", "[run-folder]") {
  const TemporaryDirectory folder;
  const RunFolder first(into(folder / "logs"), job_of("../../x"), "");
  const RunFolder second(into(folder / "logs"), job_of(".."), "");
  CHECK(ddp::test::entries_of(folder.path()) == 1);
  CHECK(ddp::test::entries_of(folder / "logs") == 2);
}

TEST_CASE("without a log folder there are only error files", "[run-folder]") {
  std::string path;
  {
    const PrivateFolder folder;
    RunFolder files({}, job_of("cafe"), folder.path());
    CHECK(files.attempt().error_file(1).empty());
    CHECK(files.begin_attempt(2, 0).empty());
    CHECK(files.attempt().path == folder.path() + "/attempt_0");
    CHECK(files.attempt().error_file(1) == folder.path() + "/attempt_0/1/error.json");
    write_bytes(files.attempt().error_file(1), "{}");
    CHECK(std::filesystem::exists(files.attempt().error_file(1)));
    path = folder.path();
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("the private folder of launchers that were killed is removed by a later one",
          "[run-folder]") {
  using std::filesystem::exists;
  const TemporaryDirectory parent;
  const ddp::test::ScopedVariable tmpdir("TMPDIR", parent.path());
  const auto old = [&](const std::string& name) {
    const std::filesystem::path path = parent / name;
    std::filesystem::create_directories(path / "attempt_0");
    const auto hour_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
    std::filesystem::last_write_time(path, hour_ago);
    return path;
  };
  const std::string prefix = ".ddp-launch-private-" +
                             ddp::test::bytes_of("/proc/sys/kernel/random/boot_id").substr(0, 8) +
                             "-";
  const auto orphan = old(prefix + "aaaaaa");
  const auto of_another_host =
      old(".ddp-launch-private-01234567-aaaaaa");  // whose locks are its own
  const auto logs = old("ddp-launch-aaaaaa");
  const auto of_a_user = old(prefix + "results");
  const auto in_use = old(prefix + "bbbbbb");
  const ddp::FileDescriptor lock(::open(in_use.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(lock.get(), LOCK_SH) == 0);
  const std::filesystem::path fresh = parent / (prefix + "cccccc");
  std::filesystem::create_directory(fresh);
  {
    const PrivateFolder own;
    const PrivateFolder other;
    CHECK(exists(own.path()));
    CHECK_FALSE(exists(orphan));
  }
  for (const auto& kept : {logs, of_a_user, of_another_host, in_use, fresh}) CHECK(exists(kept));
}

TEST_CASE("without any folder there are no files", "[run-folder]") {
  RunFolder files({}, job_of("cafe"), "");
  CHECK(files.begin_attempt(2, 0).empty());
  CHECK(files.attempt().path.empty());
  CHECK(files.attempt().error_file(0).empty());
}

TEST_CASE("a folder that has vanished costs an attempt its files, and not the job",
          "[run-folder]") {
  const TemporaryDirectory folder;
  RunFolder logs(into(folder.path()), job_of("cafe"), "");
  CHECK(logs.begin_attempt(2, 0).empty());
  std::filesystem::remove_all(logs.log_root());
  CHECK(logs.begin_attempt(2, 1).empty());
  CHECK(std::filesystem::is_directory(logs.log_root() + "/attempt_1/1"));
  std::filesystem::remove_all(logs.log_root());
  write_bytes(logs.log_root(), "");
  CHECK_THAT(logs.begin_attempt(2, 2), Contains("/cafe/attempt_2: Not a directory; this attempt"));
  CHECK(logs.attempt().log_file(0, Channel::kOut).empty());
  const PrivateFolder own;
  RunFolder files({}, job_of("cafe"), own.path());
  std::filesystem::remove_all(own.path());
  CHECK_THAT(
      files.begin_attempt(2, 1),
      Contains("of the errors that ranks record, the verdict will know only how they begin"));
  CHECK(files.attempt().path.empty());
}

namespace {

// A folder in which everybody may write, as of a shared project; of another user if this one may
// give it away.
void make_common(const std::filesystem::path& path, uid_t owner) {
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::all);
  if (::geteuid() == 0) REQUIRE(::chown(path.c_str(), owner, owner) == 0);
}

constexpr uid_t kOtherUser = 4242;

}  // namespace

TEST_CASE("a log folder may be a link, or belong to another user", "[run-folder]") {
  const TemporaryDirectory folder;
  make_common(folder / "project", kOtherUser);
  std::filesystem::create_directory_symlink(folder / "project", folder / "logs");
  RunFolder files(into(folder / "logs"), job_of("cafe"), "");
  for (int attempt = 0; attempt < 2; ++attempt) CHECK(files.begin_attempt(2, attempt).empty());
  LogFile log(files.attempt().log_file(1, Channel::kOut));
  CHECK(log.write("text\n") == 0);
  CHECK(bytes_of(folder / "project/cafe/attempt_1/1/stdout.log") == "text\n");
  // The user moves the run to another disk meanwhile.
  std::filesystem::rename(folder / "project/cafe", folder / "moved");
  std::filesystem::create_directory_symlink(folder / "moved", folder / "project/cafe");
  CHECK(files.begin_attempt(2, 2).empty());
  CHECK(std::filesystem::is_directory(folder / "moved/attempt_2/1"));
}

// In a folder where all users may rename everything, such as a TMPDIR without the sticky bit.
TEST_CASE("nothing is written where somebody else has put a link or a folder", "[run-folder]") {
  const TemporaryDirectory folder;
  make_common(folder / "victim", ::geteuid());
  RunFolder files(into(folder / "logs"), job_of("cafe"), "");
  CHECK(files.begin_attempt(1, 0).empty());
  const std::filesystem::path root = files.log_root();
  std::filesystem::create_directory_symlink(folder / "victim", root / "attempt_1");
  CHECK_THAT(files.begin_attempt(1, 1),
             Contains("attempt_1: File exists; this attempt has no log"));
  CHECK(ddp::test::entries_of(folder / "victim") == 0);
  if (::geteuid() != 0) return;
  make_common(root / "attempt_2", kOtherUser);
  CHECK_THAT(files.begin_attempt(1, 2),
             Contains("attempt_2: File exists; this attempt has no log"));
  CHECK(files.begin_attempt(1, 3).empty());
  std::filesystem::rename(root, folder / "old");
  make_common(root, kOtherUser);
  CHECK_THAT(files.begin_attempt(1, 4), Contains("attempt_4: Operation not permitted; this"));
  CHECK(ddp::test::entries_of(root) == 0);
}

TEST_CASE("a log file is not written through a link", "[run-folder]") {
  const TemporaryDirectory folder;
  write_bytes(folder / "victim", "precious");
  std::filesystem::create_symlink(folder / "victim", folder / "link");
  LogFile link((folder / "link").string());
  CHECK(link.write("x") == ELOOP);
  CHECK(bytes_of(folder / "victim") == "precious");
}

TEST_CASE("a log folder that cannot be made is refused", "[run-folder]") {
  const TemporaryDirectory folder;
  write_bytes(folder / "file", "");
  const auto make = [&] { const RunFolder files(into(folder / "file" / "logs"), job_of("x"), ""); };
  CHECK_THROWS_AS(make(), LaunchError);
  CHECK_THAT(ddp::test::error_of(make), Contains((folder / "file" / "logs").string()));
}

TEST_CASE("by default rank 0's stdout and everybody's stderr reach the console", "[log-route]") {
  const LogOptions options;
  CHECK(way(options, 0, Channel::kOut) == "console");
  CHECK(way(options, 1, Channel::kOut) == "nowhere");
  CHECK(way(options, 1, Channel::kErr) == "console");
  CHECK_FALSE(has_files(options));
}

TEST_CASE("with a log folder, all output is also in files", "[log-route]") {
  const LogOptions options = into("logs");
  CHECK(way(options, 0, Channel::kOut) == "both");
  CHECK(way(options, 1, Channel::kOut) == "file");
  CHECK(way(options, 1, Channel::kErr) == "both");
  CHECK(has_files(options));
}

TEST_CASE("redirected output is not shown, and teed output is shown", "[log-route]") {
  LogOptions options;
  options.redirects.by_local_rank = {{0, StreamSelection::kBoth}, {1, StreamSelection::kStderr}};
  options.tee.by_local_rank = {{0, StreamSelection::kStderr}, {2, StreamSelection::kStdout}};
  CHECK(way(options, 0, Channel::kOut) == "file");
  CHECK(way(options, 0, Channel::kErr) == "both");
  CHECK(way(options, 1, Channel::kErr) == "file");
  CHECK(way(options, 1, Channel::kOut) == "nowhere");
  CHECK(way(options, 2, Channel::kOut) == "both");
  CHECK(way(options, 2, Channel::kErr) == "console");
  CHECK(has_files(options));
}

TEST_CASE("a filter of local ranks shows those, and no others", "[log-route]") {
  LogOptions options;
  options.local_ranks_filter = std::vector<int>{1, 2};
  options.tee.everybody = StreamSelection::kStdout;
  CHECK(way(options, 0, Channel::kOut) == "file");
  CHECK(way(options, 0, Channel::kErr) == "nowhere");
  CHECK(way(options, 1, Channel::kOut) == "both");
  CHECK(way(options, 1, Channel::kErr) == "console");
  options.tee = {};
  CHECK(way(options, 2, Channel::kOut) == "console");
  options.show = {Show::Kind::kListed, {2}};
  CHECK(way(options, 1, Channel::kErr) == "nowhere");
  CHECK(way(options, 2, Channel::kErr) == "console");
}

TEST_CASE("a filter of local ranks means these on every node", "[log-route]") {
  LogOptions options;
  options.local_ranks_filter = std::vector<int>{1};
  CHECK(route(options, 5, 1, Channel::kErr).to_console);
  CHECK_FALSE(route(options, 1, 0, Channel::kErr).to_console);
}
