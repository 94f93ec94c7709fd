// SPDX-License-Identifier: MIT
#include "ddp/io/trace_writer.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace ddp {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kPendingBytes = std::size_t{64} << 10;

std::string text_of(const OrderedJson& event) {
  return event.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

TraceWriter::TraceWriter(std::filesystem::path path)
    : file_("trace_writer", std::move(path), TextFileMode::kTruncate), origin_(Clock::now()) {}

TraceWriter::~TraceWriter() {
  if (!is_empty_) finish();
}

void TraceWriter::add_process(int process, std::string_view name, std::string_view label) {
  const auto describe = [&](const char* what, const OrderedJson& arguments) {
    put(text_of({{"name", what}, {"ph", "M"}, {"pid", process}, {"args", arguments}}));
  };
  describe("process_name", {{"name", name}});
  describe("process_sort_index", {{"sort_index", process}});
  if (!label.empty()) describe("process_labels", {{"labels", label}});
}

TraceWriter::Lane TraceWriter::add_lane(int process, std::string_view name) {
  const Lane lane{.process = process, .number = lanes_++};
  const auto describe = [&](const char* what, const OrderedJson& arguments) {
    put(text_of({{"name", what},
                 {"ph", "M"},
                 {"pid", process},
                 {"tid", lane.number},
                 {"args", arguments}}));
  };
  describe("thread_name", {{"name", name}});
  describe("thread_sort_index", {{"sort_index", lane.number}});
  return lane;
}

void TraceWriter::span(Lane lane, std::string_view name, const Interval& interval,
                       std::span<const Metric> arguments) {
  OrderedJson event = {{"name", name},
                       {"ph", "X"},
                       {"ts", microseconds(interval.begin - origin_)},
                       {"dur", microseconds(interval.end - interval.begin)},
                       {"pid", lane.process},
                       {"tid", lane.number}};
  for (const Metric& argument : arguments) {
    std::visit([&](const auto& value) { event["args"][std::string(argument.name)] = value; },
               argument.value);
  }
  put(text_of(event));
}

void TraceWriter::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  file_.write(pending_ + "\n]\n");
}

void TraceWriter::put(std::string_view event) {
  if (is_finished_) return;
  pending_.append(is_empty_ ? "\n" : ",\n").append(event);
  is_empty_ = false;
  if (pending_.size() < kPendingBytes) return;
  file_.write(pending_);
  pending_.clear();
}

}  // namespace ddp
