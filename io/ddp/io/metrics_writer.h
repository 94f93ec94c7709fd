// SPDX-License-Identifier: MIT
//
// Metrics as JSON lines (https://jsonlines.org), one object per line:
//
//   {"event": "step" | "epoch" | "final" | ..., NAME: VALUE, ...}
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "ddp/io/text_file.h"

namespace ddp {

struct Metric {
  using Value = std::variant<bool, std::int64_t, double, std::string_view>;

  std::string_view name;
  Value value;

  Metric(std::string_view of, Value content) : name(of), value(content) {}
  // Of any integer type; one above the largest int64 is the caller's error.
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) Metric(std::string_view of, Integer number)
      : name(of), value(std::int64_t(number)) {}
};

// One line with its newline; names keep their order. NaN and infinities, which JSON lacks, become
// null. Throws std::invalid_argument if a name is given twice; "event" is the event's.
[[nodiscard]] std::string format_metrics(std::string_view event, std::span<const Metric> metrics);
[[nodiscard]] inline std::string format_metrics(std::string_view event,
                                                std::initializer_list<Metric> metrics) {
  return format_metrics(event, std::span(metrics.begin(), metrics.size()));
}

// Writes each line at once and completely, so that a reader can follow the file. Not thread-safe.
class MetricsWriter {
 public:
  // These throw FileError that names the file and the reason; see TextFile.
  explicit MetricsWriter(std::filesystem::path path, TextFileMode mode = TextFileMode::kTruncate);

  void begin() { file_.begin(); }

  // A failure (a full disk) does not end the training: see TextFile. Throws like format_metrics().
  void write(std::string_view event, std::span<const Metric> metrics);
  void write(std::string_view event, std::initializer_list<Metric> metrics) {
    write(event, std::span(metrics.begin(), metrics.size()));
  }

  [[nodiscard]] bool failed() const { return file_.failed(); }

 private:
  TextFile file_;
};

}  // namespace ddp
