// SPDX-License-Identifier: MIT
#include "ddp/collectives/hang/event_report.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <unordered_map>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/log.h"
#include "ddp/base/system/no_write_signals.h"
#include "ddp/base/system/write_all.h"

namespace ddp {
namespace {

using Event = FlightRecorder::Event;
using What = FlightRecorder::What;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &fields);
  return text.data();
}

bool submits(const Event& event) {
  return event.what == What::kSubmitted || event.what == What::kJoined;
}

std::string_view verb_of(What what) {
  switch (what) {
    case What::kSubmitted:
      return "submitted";
    case What::kJoined:
      return "joined";
    case What::kStarted:
      return "started";
    case What::kDone:
      return "done";
    case What::kBroken:
      return "the group broke";
    case What::kStepBegun:
      return "the step begins";
    case What::kStepEnded:
      return "the step ends";
    case What::kStepLeft:
      return "the step is left in the middle";
    case What::kReady:
      return "ready";
  }
  return "?";
}

// Events that come later refer to an operation by its number only.
using Operations = std::unordered_map<std::uint64_t, std::string>;

// Those of a batch have one number, and start and are done together.
Operations describe_operations(const FlightRecorder& recorder, const std::vector<Event>& events) {
  Operations operations;
  std::unordered_map<std::uint64_t, int> sizes;  // of batches
  for (const Event& event : events) {
    if (!submits(event)) continue;
    operations.try_emplace(event.operation, describe_operation(recorder, event));
    ++sizes[event.operation];
  }
  for (const auto& [number, size] : sizes) {
    if (size > 1) operations[number] += fmt::format(" and {} more", size - 1);
  }
  return operations;
}

std::string describe_event(const Event& event, const FlightRecorder& recorder,
                           const Operations& operations) {
  const std::string verb(verb_of(event.what));
  if (event.what == What::kReady) return recorder.labels().text(event.label) + ": " + verb;
  if (submits(event)) return describe_operation(recorder, event) + ": " + verb;
  if (event.operation == 0) return verb;
  const auto known = operations.find(event.operation);
  return (known == operations.end() ? "an older operation" : known->second) + ": " + verb;
}

// Waits for a pipe's reader to read, but not for there to be one. Returns an errno or 0.
int append_text_to(const char* path, std::string_view text) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC;
  const FileDescriptor file(::open(path, kFlags, 0666));
  if (!file.is_open()) return errno;
  ::fcntl(file.get(), F_SETFL, O_APPEND);
  return write_all(file.get(), text);
}

}  // namespace

std::string describe_events(const FlightRecorder& recorder, std::string_view title) {
  const std::vector<Event> events = recorder.events();
  const Operations operations = describe_operations(recorder, events);
  const Clock::time_point now = Clock::now();
  std::string text = "[" + std::string(title) + "] " + std::to_string(events.size()) +
                     " events until " + utc_now() + "\n";
  for (const Event& event : events) {
    const double seconds = std::chrono::duration<double>(event.time - now).count();
    text += fmt::format("{:14.6f} s  step {}  {}\n", seconds, event.step,
                        describe_event(event, recorder, operations));
  }
  return text;
}

void append_to_events_file(const FlightRecorder& recorder, std::string_view title,
                           std::string_view error) noexcept {
  const char* path = std::getenv("DDP_EVENTS_FILE");
  if (path == nullptr || *path == '\0') return;
  try {
    const std::string text =
        describe_events(recorder, title) + "error: " + std::string(error) + "\n";
    const NoWriteSignals guard;
    const int failure = append_text_to(path, text);
    if (failure == 0) return;
    logging::warning("[events] DDP_EVENTS_FILE=" + std::string(path) +
                     ": cannot write the last events: " + error_text(failure));
  } catch (const std::exception&) {  // thrown if there is no memory left
  }
}

}  // namespace ddp
