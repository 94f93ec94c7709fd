// SPDX-License-Identifier: MIT
#include "ddp/io/summary_writer.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

#include "ddp/base/error.h"
#include "ddp/base/system/host_name.h"
#include "ddp/io/event_record.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A name that is not taken, since one process may create two files in a second.
fs::path new_file_in(const fs::path& log_dir) {
  std::error_code error;
  fs::create_directories(log_dir, error);
  if (error) {
    throw FileError("[summary_writer] " + log_dir.string() +
                    ": cannot make the directory: " + error.message());
  }
  const auto seconds = static_cast<std::int64_t>(wall_time());
  for (int number = 0;; ++number) {
    fs::path path = log_dir / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", seconds,
                                          host_name(), getpid(), number);
    if (!fs::exists(path, error)) return path;
  }
}

}  // namespace

SummaryWriter::SummaryWriter(const fs::path& log_dir)
    : path_(new_file_in(log_dir)), file_("summary_writer", path_, TextFileMode::kAppend) {
  file_.write(version_record(wall_time()));
}

void SummaryWriter::add_scalar(std::string_view tag, double value, std::int64_t step) {
  file_.write(scalar_record({.tag = tag, .value = value, .step = step, .wall_time = wall_time()}));
}

}  // namespace ddp
