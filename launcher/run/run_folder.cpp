// SPDX-License-Identifier: MIT
#include "launcher/run/run_folder.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "ddp/base/error.h"
#include "launcher/launch_error.h"
#include "launcher/output/log_route.h"
#include "launcher/run/temporary_folder.h"

namespace ddp::launcher {
namespace {

constexpr int kMaxRunsOfOneName = 10000;
constexpr std::string_view kLogPrefix = "ddp-launch-";

[[noreturn]] void refuse_folder(const std::string& path, int error_number) {
  throw LaunchError(
      fmt::format("cannot make the log folder '{}': {}", path, error_text(error_number)));
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
  if (error) refuse_folder(parent, error.value());
  std::string path = (std::filesystem::absolute(parent) / name).lexically_normal().string();
  const std::string first = path;
  for (int run = 2; ::mkdir(path.c_str(), 0777) != 0; ++run) {
    if (errno != EEXIST || run > kMaxRunsOfOneName) refuse_folder(path, errno);
    path = fmt::format("{}_{}", first, run);
  }
  return path;
}

// Of the thing itself, not of what a link leads to; nothing if it does not exist.
std::optional<struct stat> look_at(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

// Leaves the reason in errno if it fails. A folder that is there already must be a real one, and of
// `owner`.
bool make_folder(const std::string& path, uid_t owner) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno != EEXIST) return false;
  const auto found = look_at(path);
  const bool is_own = found && S_ISDIR(found->st_mode) && found->st_uid == owner;
  errno = EEXIST;
  return is_own;
}

}  // namespace

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
  if (const auto made = look_at(root_)) owner_ = made->st_uid;
}

std::string RunFolder::begin_attempt(int workers, int restart_count) {
  if (root_.empty()) return "";
  attempt_.path = fmt::format("{}/attempt_{}", root_, restart_count);
  if (make_attempt(workers)) return "";
  const int error = errno;
  if (stays_ && restart_count == 0) refuse_folder(attempt_.path, error);
  return fmt::format(
      "cannot make the folder {}: {}; {}", std::exchange(attempt_.path, ""), error_text(error),
      stays_ ? "this attempt has no log files"
             : "of the errors that ranks record, the verdict will know only how they begin");
}

// Leaves the reason in errno if it fails. Since the last attempt the root may have been removed, or
// moved by its owner, who has left a link. Where others may rename it, as in a TMPDIR without the
// sticky bit, they may have put their own in its place.
bool RunFolder::make_attempt(int workers) const {
  std::error_code ignored;
  if (stays_) std::filesystem::create_directories(root_, ignored);
  if (const auto root = look_at(root_); root && root->st_uid != owner_) {
    errno = EPERM;
    return false;
  }
  bool is_made = make_folder(attempt_.path, owner_);
  for (int local_rank = 0; is_made && local_rank < workers; ++local_rank) {
    is_made = make_folder(attempt_.rank_folder(local_rank), owner_);
  }
  return is_made;
}

}  // namespace ddp::launcher
