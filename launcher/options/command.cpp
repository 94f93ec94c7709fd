// SPDX-License-Identifier: MIT
#include "launcher/options/command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_executable(const std::string& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

// The first executable `name` in a colon-separated list of folders (an empty one is the current).
std::optional<std::string> find_in(std::string_view folders, const std::string& name) {
  for (;;) {
    const std::size_t colon = folders.find(':');
    const std::string_view folder = folders.substr(0, colon);
    std::string candidate = (folder.empty() ? "." : std::string(folder)) + "/" + name;
    if (is_executable(candidate)) return candidate;
    if (colon == std::string_view::npos) return std::nullopt;
    folders.remove_prefix(colon + 1);
  }
}

enum class FileKind { kNative, kShebang, kText };

// A NUL byte near the start marks a binary; the kernel decides whether it can run it.
FileKind kind_of(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> head{};
  const ssize_t size = ::read(file.get(), head.data(), head.size());
  if (size < 0) return FileKind::kNative;  // unreadable but executable is fine
  const std::string_view text(head.data(), static_cast<std::size_t>(size));
  if (text.starts_with("#!")) return FileKind::kShebang;
  return text.find('\0') == std::string_view::npos ? FileKind::kText : FileKind::kNative;
}

[[noreturn]] void refuse(const std::string& program, int error_number, const char* hint = "") {
  throw LaunchError(fmt::format("cannot run '{}': {}{}", program, error_text(error_number), hint),
                    error_number == ENOENT ? kNotFoundExitCode : kNotExecutableExitCode);
}

// The file behind PROGRAM. A Python file needs no permission to execute.
std::string locate(const std::string& program, const std::string& search_path, bool is_python) {
  if (program.find('/') != std::string::npos || (is_python && is_file(program))) {
    struct stat info {};
    if (::stat(program.c_str(), &info) != 0) refuse(program, errno);
    if (S_ISDIR(info.st_mode)) refuse(program, EISDIR);
    if (is_python && !S_ISREG(info.st_mode)) refuse(program, EACCES, " (it is no regular file)");
    if (!is_python && !is_executable(program)) {
      const bool nobody_may = (info.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0;
      refuse(program, EACCES,
             nobody_may && is_file(program) ? " (chmod +x makes it a program)" : "");
    }
    return program;
  }
  if (const auto found = find_in(search_path, program)) return *found;
  const char* hint = is_file(program) ? "; did you mean ./" : "";
  throw LaunchError(fmt::format("cannot find '{}' on PATH{}{}", program, hint,
                                *hint == '\0' ? "" : program + "?"),
                    kNotFoundExitCode);
}

std::string find_python(const ProgramOptions& program, const std::string& search_path) {
  if (program.python.find('/') != std::string::npos) return locate(program.python, "", false);
  if (auto python = find_in(search_path, program.python)) return *python;
  throw LaunchError(
      fmt::format("cannot run '{}': {} is not on PATH", program.command.front(), program.python),
      kNotFoundExitCode);
}

// The program that runs PROGRAM, with its arguments up to PROGRAM's name.
Command resolve_program(const ProgramOptions& options, const std::string& search_path) {
  using Kind = ProgramOptions::Kind;
  const std::string& program = options.command.front();
  if (options.kind == Kind::kModule) {
    return {find_python(options, search_path), {options.python, "-u", "-m", program}};
  }
  const bool is_python = options.kind == Kind::kAny && program.ends_with(".py");
  const std::string path = locate(program, search_path, is_python);
  const FileKind file = kind_of(path);
  if (is_python && (file != FileKind::kShebang || !is_executable(path))) {
    return {find_python(options, search_path), {options.python, "-u", path}};
  }
  if (file == FileKind::kText) return {"/bin/sh", {"/bin/sh", path}};
  return {path, {program}};
}

}  // namespace

Command resolve_command(const ProgramOptions& program, const std::string& search_path) {
  const std::vector<std::string>& typed = program.command;
  Command command = resolve_program(program, search_path);
  if (program.pass_local_rank) command.local_rank_at = command.argv.size();
  command.argv.insert(command.argv.end(), typed.begin() + 1, typed.end());
  return command;
}

Command command_of(const Command& command, int local_rank) {
  Command own = command;
  if (command.local_rank_at == 0) return own;
  own.argv.insert(own.argv.begin() + static_cast<std::ptrdiff_t>(command.local_rank_at),
                  fmt::format("--local-rank={}", local_rank));
  return own;
}

}  // namespace ddp::launcher
