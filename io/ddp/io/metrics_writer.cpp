// SPDX-License-Identifier: MIT
#include "ddp/io/metrics_writer.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace ddp {

std::string format_metrics(std::string_view event, std::span<const Metric> metrics) {
  nlohmann::ordered_json line = {{"event", event}};
  for (const Metric& metric : metrics) {
    if (line.contains(metric.name)) {
      throw std::invalid_argument("[metrics_writer] the name \"" + std::string(metric.name) +
                                  "\" is twice in a line of the event \"" + std::string(event) +
                                  "\"");
    }
    std::visit([&](const auto& value) { line[std::string(metric.name)] = value; }, metric.value);
  }
  using ErrorHandler = nlohmann::ordered_json::error_handler_t;
  return line.dump(-1, ' ', false, ErrorHandler::replace) + '\n';
}

MetricsWriter::MetricsWriter(std::filesystem::path path, TextFileMode mode)
    : file_("metrics_writer", std::move(path), mode) {}

void MetricsWriter::write(std::string_view event, std::span<const Metric> metrics) {
  if (!failed()) file_.write(format_metrics(event, metrics));
}

}  // namespace ddp
