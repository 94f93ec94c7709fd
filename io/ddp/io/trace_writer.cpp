// SPDX-License-Identifier: MIT
#include "ddp/io/trace_writer.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPendingBytes = std::size_t{64} << 10;

std::string dump(const Json& event) {
  return event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

TraceWriter::TraceWriter(std::filesystem::path path, int process, std::string_view process_name)
    : file_("trace_writer", std::move(path), TextFileMode::kTruncate),
      process_(process),
      origin_(Clock::now()) {
  pending_ = "[\n" + dump({{"name", "process_name"},
                           {"ph", "M"},
                           {"pid", process_},
                           {"args", {{"name", process_name}}}});
}

TraceWriter::~TraceWriter() {
  pending_ += "\n]\n";
  file_.write(pending_);
}

int TraceWriter::add_lane(std::string_view name) {
  put(dump({{"name", "thread_name"},
            {"ph", "M"},
            {"pid", process_},
            {"tid", lanes_},
            {"args", {{"name", name}}}}));
  put(dump({{"name", "thread_sort_index"},
            {"ph", "M"},
            {"pid", process_},
            {"tid", lanes_},
            {"args", {{"sort_index", lanes_}}}}));
  return lanes_++;
}

void TraceWriter::span(int lane, std::string_view name, const Interval& interval,
                       std::initializer_list<Metric> arguments) {
  Json event = {{"name", name},
                {"ph", "X"},
                {"ts", microseconds(interval.begin - origin_)},
                {"dur", microseconds(interval.end - interval.begin)},
                {"pid", process_},
                {"tid", lane}};
  for (const Metric& argument : arguments) {
    std::visit([&](const auto& value) { event["args"][std::string(argument.name)] = value; },
               argument.value);
  }
  put(dump(event));
}

void TraceWriter::put(std::string_view event) {
  pending_.append(",\n").append(event);
  if (pending_.size() < kPendingBytes) return;
  file_.write(pending_);
  pending_.clear();
}

}  // namespace ddp
