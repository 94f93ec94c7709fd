// SPDX-License-Identifier: MIT
//
// Time lines in the Trace Event Format's array form, which chrome://tracing and ui.perfetto.dev
// show: one complete event ("ph": "X") a line, times in microseconds since the writer was made.
//
//   [
//   {"name": NAME, "ph": "X", "ts": BEGIN, "dur": LENGTH, "pid": PROCESS, "tid": LANE, "args":
//   {...}},
//   ...
//   ]
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "ddp/base/time.h"
#include "ddp/io/metrics_writer.h"
#include "ddp/io/text_file.h"

namespace ddp {

// Not thread-safe. A trace that breaks off (a killed process) can still be looked at.
class TraceWriter {
 public:
  // `process` is a number that the viewer groups by, such as the rank. Throws FileError.
  TraceWriter(std::filesystem::path path, int process, std::string_view process_name);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // A line of the picture; lanes appear in this order.
  [[nodiscard]] int add_lane(std::string_view name);
  void span(int lane, std::string_view name, const Interval& interval,
            std::initializer_list<Metric> arguments = {});

 private:
  void put(std::string_view event);

  TextFile file_;
  std::string pending_;
  int process_;
  int lanes_ = 0;
  Clock::time_point origin_;
};

}  // namespace ddp
