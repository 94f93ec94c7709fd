// SPDX-License-Identifier: MIT
#include "launcher/verdict/crash_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>

#include "ddp/base/system/regular_file.h"
#include "launcher/verdict/elf_image.h"
#include "launcher/verdict/source_lines.h"

namespace ddp::launcher {
namespace {

// The kernel's default limit of 65,530 mappings, of about 120 bytes each, and the frames.
constexpr std::size_t kLongestCrashRecord = 8 << 20;
constexpr std::size_t kMostRecordedFrames = 64;  // as crash_record.cpp has it

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::string path;          // empty: memory without a file
};

// A position in a program's code.
struct Frame {
  std::uint64_t address = 0;  // in memory; for a module, the link-time address
  std::string module{};       // a path; empty: none is known
};

// "7f00-7f42 r-xp 00001000 fe:01 4711    /usr/lib/libc.so.6"
std::optional<Mapping> parse_mapping(const std::string& line) {
  std::istringstream fields(line);
  Mapping mapping;
  char dash = 0;
  std::string permissions;
  std::string device;
  std::string inode;
  fields >> std::hex >> mapping.begin >> dash >> mapping.end >> permissions >> mapping.offset;
  fields >> device >> inode;
  if (!fields) return std::nullopt;
  std::getline(fields >> std::ws, mapping.path);
  if (!mapping.path.starts_with('/')) mapping.path.clear();  // "[stack]"
  return mapping;
}

// A return address comes after its call instruction, perhaps in the next function.
std::optional<std::uint64_t> parse_address(const std::string& line) {
  std::istringstream fields(line);
  std::string kind;
  std::uint64_t address = 0;
  if (!(fields >> kind >> std::hex >> address)) return std::nullopt;
  return kind == "call" && address > 0 ? address - 1 : address;
}

Frame find_frame(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const auto found = std::ranges::find_if(mappings, [address](const Mapping& mapping) {
    return address >= mapping.begin && address < mapping.end;
  });
  if (found == mappings.end() || found->path.empty()) return {.address = address};
  const auto linked = ElfImage(found->path).address_of(address - found->begin + found->offset);
  return linked ? Frame{*linked, found->path} : Frame{.address = address};
}

// A worker may have made anything of the file.
std::vector<Frame> read_frames(const std::string& path) {
  std::istringstream file(read_beginning(path, kLongestCrashRecord));
  std::vector<Mapping> mappings;
  std::vector<Frame> frames;
  std::string line;
  while (std::getline(file, line) && !line.empty()) {
    if (auto mapping = parse_mapping(line)) mappings.push_back(std::move(*mapping));
  }
  while (frames.size() < kMostRecordedFrames && std::getline(file, line)) {
    if (const auto address = parse_address(line)) frames.push_back(find_frame(mappings, *address));
  }
  return frames;
}

std::string name_of(const Frame& frame) {
  return std::filesystem::path(frame.module).filename().string();
}

bool is_of_runtime_library(const Frame& frame) {
  const std::string name = name_of(frame);
  return name.starts_with("libc.so") || name.starts_with("libstdc++.so") ||
         name.starts_with("libc++") || name.starts_with("libpthread") ||
         name.find("san.so") != std::string::npos;  // of a sanitizer
}

void leave_out_abort(std::vector<Frame>& frames) {
  const auto first = std::ranges::find_if_not(frames, is_of_runtime_library);
  if (first != frames.end()) frames.erase(frames.begin(), first);
}

void leave_out_start_of_thread(std::vector<Frame>& frames) {
  while (frames.size() > 1 &&
         (is_of_runtime_library(frames.back()) || frames.back().address == 0)) {
    frames.pop_back();
  }
}

std::string describe_place(const Frame& frame, SourceLines& lines) {
  if (frame.module.empty()) return fmt::format("{:#x}", frame.address);
  const std::string line = lines.line_of(frame.module, frame.address);
  return line.empty() ? fmt::format("{}+{:#x}", name_of(frame), frame.address) : line;
}

}  // namespace

std::vector<std::string> read_crash_record(const std::string& path, int signal_number) {
  constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  if (std::ranges::find(kSignals, signal_number) == kSignals.end()) return {};
  std::vector<Frame> frames = read_frames(path);
  if (signal_number == SIGABRT) leave_out_abort(frames);
  leave_out_start_of_thread(frames);
  if (frames.size() > kMostCrashFrames) frames.resize(kMostCrashFrames);
  SourceLines lines;
  std::vector<std::string> descriptions;
  for (const Frame& frame : frames) {
    const std::string function = ElfImage(frame.module).function_at(frame.address);
    const std::string place = describe_place(frame, lines);
    descriptions.push_back(function.empty() ? place : fmt::format("{} ({})", function, place));
    if (function == "main" || function.starts_with("main.")) break;  // main.cold
  }
  return descriptions;
}

}  // namespace ddp::launcher
