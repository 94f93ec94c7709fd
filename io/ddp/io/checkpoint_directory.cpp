// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_directory.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/io/atomic_file.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/directory_lock.h"

namespace ddp {
namespace {

constexpr const char* kBest = "model_best.safetensors";

// A part of the path may be a link to nothing, of which the system says only that it exists. Looks
// from the last part to the first.
std::string why_not_made(std::filesystem::path path, const std::error_code& error) {
  for (; path.has_relative_path(); path = path.parent_path()) {
    std::error_code failed;
    if (std::filesystem::exists(path, failed) || failed) continue;
    const std::filesystem::path target = std::filesystem::read_symlink(path, failed);
    if (!failed)
      return path.string() + " is a link to " + target.string() + ", which does not exist";
  }
  return error.message();
}

void make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw FileError("[checkpoint] cannot create the directory " + path.string() + ": " +
                    why_not_made(path, error));
  }
}

// Refuses a name that a later process would not find.
void check_name(const CheckpointName& name) {
  if (name.epochs >= 0 && name.step.value_or(0) >= 0) return;
  throw std::invalid_argument("[checkpoint] " + to_string(name) +
                              ": epochs and steps count from 0");
}

// True if the system could not read the file, which may be intact. A missing file is no such error,
// since a user may have removed it.
bool is_error_of_system(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (const auto* system = dynamic_cast<const SystemError*>(&error)) {
    return system->error_number() != ENOENT;
  }
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    return is_error_of_system(inner);
  }
  return false;
}

bool try_to_remove(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::remove(file, error);
  if (error) {
    logging::warning("[checkpoint] cannot remove " + file.string() + ": " + error.message());
  }
  return !error;
}

}  // namespace

bool is_name_in_checkpoint_directory(std::string_view name) {
  return name == kCheckpointListName || name == kBest || name == kDirectoryLockName ||
         name == kDirectoryProbeName || parse_checkpoint_name(name).has_value();
}

CheckpointDirectory::CheckpointDirectory(CheckpointDirectoryOptions options)
    : options_(std::move(options)) {
  if (options_.keep < 0) {
    throw std::invalid_argument("[checkpoint] keep is " + std::to_string(options_.keep) +
                                ", below 0");
  }
  make_directory(options_.path);
  names_ = listed_ = read_checkpoint_list(options_.path);
}

void CheckpointDirectory::check_replaceable() const {
  const AtomicFile probe(options_.path / kCheckpointListName);  // removed at once
}

void CheckpointDirectory::reread() {
  std::vector<CheckpointName> now = read_checkpoint_list(options_.path);
  if (now == listed_) return;
  if (has_loaded_) {
    throw FileError("[checkpoint] " + options_.path.string() +
                    ": another process has saved there since this one loaded its checkpoint; make "
                    "the CheckpointWriter before load_newest()");
  }
  names_ = listed_ = std::move(now);
}

// The order matters if the process is killed in between: first the file, then `model_best`, then
// `latest`, and only then may an old file be removed.
void CheckpointDirectory::save(const CheckpointInfo& info, std::span<const NamedBuffer> tensors) {
  check_name(info.name);
  const std::filesystem::path file = options_.path / to_string(info.name);
  remove_orphaned_temporaries(options_.path, is_name_in_checkpoint_directory);
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(symlink_status(file, ignored));
  save_checkpoint(file, tensors, info.metadata);
  try {
    if (info.is_best) save_best(file, info, tensors);
    std::erase(names_, info.name);
    names_.insert(names_.begin(), info.name);
    write_list();
  } catch (...) {
    if (is_new) remove_unlisted(info.name);
    throw;
  }
  prune();
}

// Without its line in `latest`, nobody would ever use or remove the new file. (One that was there
// before may be what the training goes back to.) An error can also come
// after `latest` was replaced; and without one, the file is found by its name.
void CheckpointDirectory::remove_unlisted(const CheckpointName& name) {
  try {
    const std::vector<CheckpointName> listed = read_checkpoint_list(options_.path);
    if (std::ranges::find(listed, name) != listed.end()) return;
  } catch (const FileError&) {
    return;  // nobody knows
  }
  std::erase(names_, name);
  (void)try_to_remove(options_.path / to_string(name));
}

std::optional<LoadedCheckpoint> CheckpointDirectory::load_newest() {
  has_loaded_ = true;
  std::exception_ptr newest_error;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::filesystem::path file = options_.path / to_string(names_[i]);
    try {
      LoadedCheckpoint loaded{file, load_checkpoint(file)};
      names_.erase(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(i));
      return loaded;
    } catch (const FileError& error) {
      if (is_error_of_system(error)) throw;
      if (!newest_error) newest_error = std::current_exception();
      logging::warning(describe(error) + "; this checkpoint is skipped");
    }
  }
  if (!newest_error) {
    refuse_best_alone();
    return std::nullopt;
  }
  try {
    std::rethrow_exception(newest_error);
  } catch (const FileError&) {
    std::throw_with_nested(FileError("[checkpoint] none of " + std::to_string(names_.size()) +
                                     " checkpoints in " + options_.path.string() +
                                     " can be loaded" + way_out() + ", the newest because"));
  }
}

std::optional<SafetensorsMetadata> CheckpointDirectory::newest_metadata() const {
  for (const CheckpointName& name : names_) {
    try {
      return load_safetensors_metadata(options_.path / to_string(name));
    } catch (const FileError& error) {
      if (is_error_of_system(error)) throw;
    }
  }
  return std::nullopt;
}

std::filesystem::path CheckpointDirectory::best() const { return options_.path / kBest; }

bool CheckpointDirectory::has_best() const {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(best(), ignored));
}

void CheckpointDirectory::refuse_best_alone() const {
  if (!has_best()) return;
  throw FileError("[checkpoint] " + options_.path.string() + " has no checkpoint but " + kBest +
                  ", which a new training would overwrite: resume from " + best().string() +
                  ", or move it away to begin anew");
}

// What a user can do if no checkpoint can be loaded.
std::string CheckpointDirectory::way_out() const {
  const std::string anew = " (put one of them back, or remove them and `latest` to begin anew)";
  if (!has_best()) return anew;
  try {
    (void)load_checkpoint(best());
  } catch (const FileError&) {
    return std::string(", nor can ") + kBest + anew;
  }
  return " (resume from " + best().string() +
         ", which is intact, or put one of them back; to begin anew, move them, `latest` and it "
         "away)";
}

void CheckpointDirectory::go_back_to(const CheckpointName& name) {
  std::erase_if(names_, [&](const CheckpointName& other) { return other > name; });
}

// Links the file a second time or, where that is not possible, writes its content again: neither
// name depends on the other.
void CheckpointDirectory::save_best(const std::filesystem::path& file, const CheckpointInfo& info,
                                    std::span<const NamedBuffer> tensors) const {
  if (!link_atomically(file, best())) save_checkpoint(best(), tensors, info.metadata);
}

// A process that is killed in between leaves old files that are still listed; the next save removes
// them, and tries again to remove those that stay listed because it was not possible.
void CheckpointDirectory::prune() {
  const auto keep = static_cast<std::size_t>(options_.keep);
  if (keep == 0 || names_.size() <= keep) return;
  const auto old = names_.begin() + static_cast<std::ptrdiff_t>(keep);
  names_.erase(std::remove_if(old, names_.end(),
                              [this](const CheckpointName& name) {
                                return try_to_remove(options_.path / to_string(name));
                              }),
               names_.end());
  write_list();
}

void CheckpointDirectory::write_list() {
  write_checkpoint_list(options_.path, names_);
  listed_ = names_;
}

}  // namespace ddp
