// SPDX-License-Identifier: MIT
#include "ddp/io/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/system/no_write_signals.h"
#include "ddp/base/system/write_all.h"

namespace ddp {
namespace {

constexpr int kMaxTries = 100;
constexpr std::string_view kTemporaryMark = ".tmp.";

// PATH.tmp.PID.N with a random N, always as long: each process of a container may have the same
// pid, and on a file system without locks the files of those that were killed stay.
std::string temporary_name(const std::filesystem::path& path) {
  std::random_device device;
  std::uniform_int_distribution number(1'000'000'000, std::numeric_limits<int>::max());
  return fmt::format("{}{}{}.{}", path.string(), kTemporaryMark, getpid(), number(device));
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& action,
                       int error_number) {
  throw FileError(fmt::format("[atomic_file] {}: cannot {}: {}", path.string(), action,
                              error_text(error_number)));
}

// NAME of NAME.tmp.PID.N, which it was to become. Nothing if the text has another form.
std::optional<std::string_view> parse_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string::npos) return std::nullopt;
  const char* const end = name.data() + name.size();
  pid_t pid = 0;
  int number = 0;
  const auto [dot, pid_error] = std::from_chars(&name[mark] + kTemporaryMark.size(), end, pid);
  if (pid_error != std::errc() || pid <= 0 || dot == end || *dot != '.') return std::nullopt;
  const auto [stop, number_error] = std::from_chars(dot + 1, end, number);
  if (number_error != std::errc() || stop != end) return std::nullopt;
  return name.substr(0, mark);
}

// What a link leads to, so that the file behind it is replaced and not the link; anything else, and
// a link that leads nowhere, as it is.
std::filesystem::path behind_links(std::filesystem::path path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target;
}

// Empty if nothing speaks against it before the file is written.
std::string why_not_replaceable(const std::filesystem::path& path) {
  struct statx file = {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_TYPE | STATX_UID, &file) != 0) return "";
  if (!S_ISREG(file.stx_mode)) return "not a regular file";
  if ((file.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
    return "it is mounted; mount its directory instead";
  }
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  struct stat directory = {};
  const uid_t user = geteuid();
  const bool is_sticky =
      stat(parent.c_str(), &directory) == 0 && (directory.st_mode & S_ISVTX) != 0;
  if (!is_sticky || user == 0 || user == directory.st_uid || user == file.stx_uid) return "";
  return "it is another user's, in a directory with the sticky bit";
}

// Whether somebody may be writing it, who holds its lock. On a file system without locks nobody can
// know: on another host or in another container, a pid is another process's.
bool may_be_written(const std::filesystem::path& temporary) {
  const FileDescriptor file(open(temporary.c_str(), O_RDWR | O_CLOEXEC));  // NFS wants to write
  return !file.is_open() || flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(behind_links(std::move(path))) {
  if (const std::string why = why_not_replaceable(path_); !why.empty()) {
    throw FileError("[atomic_file] " + path_.string() + ": cannot replace: " + why);
  }
  create_temporary();
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const NoWriteSignals guard;
  if (const int error = write_all(fd_.get(), text); error != 0) fail(path_, "write", error);
}

void AtomicFile::commit() {
  if (fsync(fd_.get()) != 0) fail(path_, "flush", errno);
  if (close(fd_.release()) != 0) fail(path_, "close", errno);
  const std::filesystem::path written = std::exchange(temporary_, {});
  if (std::rename(written.c_str(), path_.c_str()) != 0) {
    fail(path_, "give this name to " + written.string() + ", which is complete", errno);
  }
  sync_directory();
}

void AtomicFile::create_temporary() {
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    const std::string name = temporary_name(path_);
    fd_ = FileDescriptor(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_.is_open()) {
      flock(fd_.get(), LOCK_EX | LOCK_NB);  // see may_be_written()
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(path_, "create a temporary file beside it", errno);
}

// Makes the rename itself durable. Some file systems cannot, and return EINVAL; and a directory
// that this user may not read cannot be flushed, but the file is there.
void AtomicFile::sync_directory() const {
  const std::filesystem::path parent = path_.has_parent_path() ? path_.parent_path() : ".";
  const FileDescriptor directory(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open() && errno == EACCES) {
    return logging::warning("[atomic_file] " + path_.string() +
                            ": written, but a loss of power now might lose it, since this user "
                            "may not read the directory");
  }
  if (!directory.is_open()) fail(path_, "open the directory of", errno);
  if (fsync(directory.get()) != 0 && errno != EINVAL) fail(path_, "flush the directory of", errno);
}

bool link_atomically(const std::filesystem::path& file, const std::filesystem::path& path) {
  const std::string temporary = temporary_name(path);
  if (link(file.c_str(), temporary.c_str()) != 0) return false;
  const bool renamed = std::rename(temporary.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(temporary.c_str());  // rename leaves it if both are links to one file
  if (!renamed) fail(path, "rename", error);
  return true;
}

void remove_orphaned_temporaries(const std::filesystem::path& directory,
                                 const std::function<bool(std::string_view name)>& is_ours) {
  using std::filesystem::directory_iterator;
  std::error_code ignored;  // a file that cannot be found or removed only takes space
  for (directory_iterator entry(directory, ignored), end; entry != end; entry.increment(ignored)) {
    const std::string file = entry->path().filename().string();
    const auto name = parse_temporary_name(file);
    if (!name || !is_ours(*name) || may_be_written(entry->path())) continue;
    std::error_code not_removed;
    std::filesystem::remove(entry->path(), not_removed);
  }
}

}  // namespace ddp
