// SPDX-License-Identifier: MIT
//
// Writes timelines in the array form of the Trace Event Format, which chrome://tracing and
// ui.perfetto.dev show: one complete event ("ph": "X") per line, times in microseconds.
//
//   [
//   {"name": NAME, "ph": "X", "ts": BEGIN, "dur": LENGTH, "pid": PROCESS, "tid": LANE,
//    "args": {...}},
//   ...
//   ]
#pragma once

#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "ddp/base/time.h"
#include "ddp/io/metrics_writer.h"
#include "ddp/io/text_file.h"

namespace ddp {

// Not thread-safe. An incomplete trace (of a killed process) can still be viewed.
class TraceWriter {
 public:
  // One row of the picture.
  struct Lane {
    int process = 0;
    int number = 0;
  };

  // These throw FileError; see TextFile.
  explicit TraceWriter(std::filesystem::path path);
  void begin() { file_.begin(); }
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Sets the time that is shown as 0; by default the construction of the writer. Call it before the
  // first span.
  void start_at(Clock::time_point origin) { origin_ = origin; }

  // A group of lanes. `process` is a unique number, such as the rank; `label` is shown beside the
  // name.
  void add_process(int process, std::string_view name, std::string_view label = "");
  // The lanes of a process appear in this order.
  [[nodiscard]] Lane add_lane(int process, std::string_view name);
  void span(Lane lane, std::string_view name, const Interval& interval,
            std::span<const Metric> arguments = {});
  void span(Lane lane, std::string_view name, const Interval& interval,
            std::initializer_list<Metric> arguments) {
    span(lane, name, interval, std::span(arguments.begin(), arguments.size()));
  }

  // Writes what is pending and the end of the array; the destructor does it, too, unless there is
  // nothing in the array: the training may have failed at the start, and the file is as it was.
  // What is added afterwards is dropped.
  void finish();
  [[nodiscard]] bool failed() const { return file_.failed(); }

 private:
  void put(std::string_view event);

  TextFile file_;
  std::string pending_ = "[";
  bool is_empty_ = true;
  bool is_finished_ = false;
  int lanes_ = 0;
  Clock::time_point origin_;
};

}  // namespace ddp
