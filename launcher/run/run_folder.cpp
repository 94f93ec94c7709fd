// SPDX-License-Identifier: MIT
#include "launcher/run/run_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "launcher/launch_error.h"
#include "launcher/output/log_route.h"

namespace ddp::launcher {
namespace {

constexpr int kMaxRunsOfOneName = 10000;

[[noreturn]] void refuse(const std::string& path, int error_number) {
  throw LaunchError(
      fmt::format("cannot make the log folder '{}': {}", path, error_text(error_number)));
}

constexpr std::string_view kLogPrefix = "ddp-launch-";
// Hidden and unlike what a user would choose, since folders of this name may be removed.
constexpr std::string_view kPrivatePrefix = ".ddp-launch-private-";
constexpr std::string_view kSuffix = "XXXXXX";  // mkdtemp replaces it

// Readable only by this user, as made by mkdtemp. Empty if it cannot be made.
std::string make_temporary_folder(const std::string& parent, std::string_view prefix) {
  std::string path = fmt::format("{}/{}{}", parent, prefix, kSuffix);
  return ::mkdtemp(path.data()) == nullptr ? "" : path;
}

bool is_private_name(std::string_view name) {
  return name.starts_with(kPrivatePrefix) && name.size() == kPrivatePrefix.size() + kSuffix.size();
}

FileDescriptor open_folder(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// A new folder is not locked yet.
constexpr std::time_t kSecondsUntilLocked = 60;

// Whether this is a private folder of this user whose processes were all killed.
bool is_orphaned(const std::string& path) {
  const FileDescriptor folder = open_folder(path);
  struct stat status = {};
  if (::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  if (std::time(nullptr) - status.st_mtime < kSecondsUntilLocked) return false;
  return ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_orphans(const std::string& parent) {
  using std::filesystem::directory_iterator;
  std::error_code ignored;  // what cannot be found or removed only takes space
  for (directory_iterator entry(parent, ignored), end; entry != end; entry.increment(ignored)) {
    const bool is_private = is_private_name(entry->path().filename().string());
    std::error_code not_removed;
    if (is_private && is_orphaned(entry->path())) {
      std::filesystem::remove_all(entry->path(), not_removed);
    }
  }
}

// Absolute, since workers may change their folder.
std::string temporary_parent(const char* otherwise) {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen == nullptr || *chosen == '\0') return otherwise;
  std::error_code ignored;
  return std::filesystem::absolute(chosen, ignored).lexically_normal().string();
}

// The user may have chosen the run's name, so it must not contain '/' or begin with '.'.
std::string folder_name(const JobLayout& layout) {
  std::string name = layout.run_id;
  std::ranges::replace(name, '/', '_');
  if (name.empty() || name.front() == '.') name.insert(0, "run_");
  if (layout.node_count > 1) name += fmt::format("_node{}", layout.node_rank);
  return name;
}

// DIR/NAME, or DIR/NAME_2 … if a run of that name exists, so that its logs are not overwritten.
std::string make_new_folder(const std::string& parent, const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) refuse(parent, error.value());
  std::string path = (std::filesystem::absolute(parent) / name).lexically_normal().string();
  const std::string first = path;
  for (int run = 2; ::mkdir(path.c_str(), 0777) != 0; ++run) {
    if (errno != EEXIST || run > kMaxRunsOfOneName) refuse(path, errno);
    path = fmt::format("{}_{}", first, run);
  }
  return path;
}

bool make_folder(const std::string& path) {
  return ::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST;
}

}  // namespace

PrivateFolder::PrivateFolder() {
  const std::string first = temporary_parent("/dev/shm");
  for (const std::string& parent : {first, std::string("/tmp")}) {
    remove_orphans(parent);
    path_ = make_temporary_folder(parent, kPrivatePrefix);
    if (!path_.empty()) break;
  }
  if (path_.empty()) {
    remark_ = fmt::format(
        "no folder can be made, neither in {} nor in /tmp ({}): the verdict will not know the "
        "errors that the ranks record",
        first, error_text(errno));
    return;
  }
  lock_ = open_folder(path_);
  static_cast<void>(::flock(lock_.get(), LOCK_SH));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

RunFolder::RunFolder(const LogOptions& options, const JobLayout& layout, std::string private_folder)
    : stays_(has_files(options)), root_(std::move(private_folder)) {
  if (options.directory) {
    root_ = make_new_folder(*options.directory, folder_name(layout));
  } else if (stays_) {
    const std::string parent = temporary_parent("/tmp");
    root_ = make_temporary_folder(parent, kLogPrefix);
    if (root_.empty()) {
      throw LaunchError(fmt::format(
          "cannot make a log folder in '{}': {}; --log_dir or TMPDIR chooses another place", parent,
          error_text(errno)));
    }
    remark_ = "the log files are in " + root_ + " (--log_dir chooses another place)";
  }
}

std::string RunFolder::begin_attempt(int workers, int restart_count) {
  if (root_.empty()) return "";
  attempt_ = fmt::format("{}/attempt_{}", root_, restart_count);
  if (make_attempt(workers)) return "";
  const int error = errno;
  if (stays_ && restart_count == 0) refuse(attempt_, error);
  return fmt::format("cannot make the folder {}: {}; {}", std::exchange(attempt_, ""),
                     error_text(error),
                     stays_ ? "this attempt has no log files"
                            : "the verdict will not know the errors that the ranks record");
}

// Leaves the reason in errno if it fails. The root may have been removed since the last attempt.
bool RunFolder::make_attempt(int workers) const {
  std::error_code ignored;
  if (stays_) std::filesystem::create_directories(root_, ignored);
  bool is_made = make_folder(attempt_);
  for (int local_rank = 0; is_made && local_rank < workers; ++local_rank) {
    is_made = make_folder(rank_folder(local_rank));
  }
  return is_made;
}

std::string RunFolder::error_file(int local_rank) const {
  return launcher::error_file(attempt_, local_rank);
}

std::string RunFolder::crash_file(int local_rank) const {
  return launcher::crash_file(attempt_, local_rank);
}

std::string RunFolder::log_file(int local_rank, Channel channel) const {
  if (!stays_ || attempt_.empty()) return "";
  return rank_folder(local_rank) + (channel == Channel::kOut ? "/stdout.log" : "/stderr.log");
}

std::string RunFolder::rank_folder(int local_rank) const {
  return rank_directory(attempt_, local_rank);
}

}  // namespace ddp::launcher
