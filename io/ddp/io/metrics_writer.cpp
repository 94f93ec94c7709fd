// SPDX-License-Identifier: MIT
#include "ddp/io/metrics_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"

namespace ddp {

std::string format_metrics(std::string_view event, std::initializer_list<Metric> metrics) {
  nlohmann::ordered_json line = {{"event", event}};
  for (const Metric& metric : metrics) {
    std::visit([&](const auto& value) { line[std::string(metric.name)] = value; }, metric.value);
  }
  using ErrorHandler = nlohmann::ordered_json::error_handler_t;
  return line.dump(-1, ' ', false, ErrorHandler::replace) + '\n';
}

MetricsWriter::MetricsWriter(std::filesystem::path path, MetricsMode mode)
    : path_(std::move(path)) {
  const int truncate = mode == MetricsMode::kTruncate ? O_TRUNC : 0;
  fd_ = FileDescriptor(
      open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | truncate, 0666));
  if (!fd_.is_open()) {
    throw FileError("[metrics_writer] " + path_.string() + ": cannot open: " + error_text(errno));
  }
}

void MetricsWriter::write(std::string_view event, std::initializer_list<Metric> metrics) {
  if (!failed_) write_all(format_metrics(event, metrics));
}

void MetricsWriter::write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      failed_ = true;
      log::error("[metrics_writer] " + path_.string() +
                 ": cannot write, no more metrics follow: " + error_text(errno));
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace ddp
