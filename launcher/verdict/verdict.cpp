// SPDX-License-Identifier: MIT
#include "launcher/verdict/verdict.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "ddp/base/printable.h"
#include "ddp/base/rank_list.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLongestMessage = 1000;
constexpr std::size_t kLongestSentence = 4000;  // of a node, which has come through the store

using Test = std::function<bool(const Ending&)>;

// The first death by a signal among the endings that pass, else the first that passes; nullptr if
// none does.
const Ending* find_cause(std::span<const Ending> endings, const Test& passes) {
  const Ending* found = nullptr;
  for (const Ending& ending : endings) {
    if (!ending.is_failure() || !passes(ending)) continue;
    if (WIFSIGNALED(ending.status)) return &ending;
    if (found == nullptr) found = &ending;
  }
  return found;
}

Ending with_older_record(std::span<const Ending> endings, const Ending& cause) {
  const Ending* oldest = &cause;
  for (const Ending& ending : endings) {
    if (!ending.is_failure() || ending.is_consequence() || !ending.recorded_at) continue;
    if (oldest->recorded_at && *ending.recorded_at < *oldest->recorded_at) oldest = &ending;
  }
  return *oldest;
}

std::string describe_bytes(std::int64_t bytes) {
  constexpr double kMebibyte = 1 << 20;
  const double size = static_cast<double>(bytes) / kMebibyte;
  return size < 1024 ? fmt::format("{:.0f} MiB", size) : fmt::format("{:.1f} GiB", size / 1024);
}

std::string describe(const OutOfMemory& event) {
  const std::string resident = describe_bytes(event.resident_bytes) + " resident";
  if (!event.limit_bytes) return "out of memory (" + resident + ")";
  return fmt::format("out of memory ({}, limit {})", resident, describe_bytes(*event.limit_bytes));
}

// Cuts also what LibTorch appends to a message: its stack.
std::string one_line(std::string_view text) {
  std::string line = printable(text.substr(0, text.find("\nException raised from ")));
  while (line.ends_with(' ')) line.pop_back();
  return shortened(line, kLongestMessage);
}

std::string describe_why(const Ending& ending) {
  std::string why;
  if (ending.out_of_memory) why = describe(*ending.out_of_memory);
  for (const std::string& more :
       {ending.record ? one_line(ending.record->message) : "", ending.hint}) {
    if (!more.empty()) why += (why.empty() ? "" : "; ") + more;
  }
  return why.empty() ? why : ": " + why;
}

// Ranks whose last step was the same, or that began none, are described together. Whether that step
// was complete is not known.
std::string describe(const std::vector<Finished>& finished) {
  std::map<std::optional<std::int64_t>, std::vector<int>> ranks_by_step;
  for (const Finished& each : finished) ranks_by_step[each.step].push_back(each.rank);
  std::string text;
  for (const auto& [step, ranks] : ranks_by_step) {
    text += fmt::format("; {} had ended with code 0{}", rank_list(ranks),
                        step ? fmt::format(" (last step: {})", *step) : "");
  }
  return text;
}

bool leads_with_hang(const WorkerFailure& failure) {
  const Ending& first = failure.first;
  return first.record && !first.record->hang.empty() && !WIFSIGNALED(first.status);
}

// A rank that has waited in vain only reports the one that did not come, which comes first then.
std::string describe_first(const WorkerFailure& failure) {
  const Ending& first = failure.first;
  const std::string host = failure.host.empty() ? "" : failure.host + ", ";
  const std::string who = fmt::format("rank {} ({}pid {})", first.rank, host, first.pid);
  const std::string how =
      fmt::format("{} after {:.1f} s{}", describe_status(first.status), failure.after.count(),
                  failure.when_asked_to_stop ? ", when asked to stop" : "");
  if (leads_with_hang(failure)) {
    return fmt::format("{}; so {} timed out, and {}", one_line(first.record->hang), who, how);
  }
  const std::string step = failure.step ? fmt::format(", in step {}", *failure.step) : "";
  return who + " " + how + step + describe_why(first);
}

std::string describe_others(int count, const char* fate) {
  if (count == 0) return "";
  return fmt::format("; {} {}", counted(count, "other rank"), fate);
}

void show_stderr(Console& console, const WorkerFailure& failure) {
  const int rank = failure.first.rank;
  if (!failure.last_lines.empty() && !failure.lines_are_in_view) {
    console.say(fmt::format("last stderr lines of rank {}:", rank));
    for (const std::string& line : failure.last_lines) console.quote(line);
  }
  if (!failure.log_file.empty()) {
    console.say(fmt::format("all of rank {}'s stderr: {}", rank, failure.log_file));
  }
}

void show_frames(Console& console, const WorkerFailure& failure) {
  if (failure.frames.empty()) return;
  console.say(fmt::format("where rank {} crashed:", failure.first.rank));
  for (const std::string& frame : failure.frames) console.quote(printable("at " + frame));
}

}  // namespace

Ending first_cause(std::span<const Ending> endings) {
  using When = Ending::When;
  const Test tests[] = {
      [](const Ending& e) { return !e.is_consequence() && e.when == When::kFirst; },
      [](const Ending& e) { return !e.is_consequence() && e.when == When::kBefore; },
      [](const Ending& e) { return !e.is_consequence() && e.record; },
      [](const Ending& e) { return e.when == When::kFirst; },
  };
  for (const Test& test : tests) {
    if (const Ending* cause = find_cause(endings, test)) return with_older_record(endings, *cause);
  }
  return endings.front();
}

std::string verdict(const WorkerFailure& failure) {
  // The rank that did not come is one of the others.
  const char* fate = leads_with_hang(failure) ? "stopped after that" : "stopped because of it";
  return describe_first(failure) + describe(failure.finished) +
         describe_others(failure.alike, "failed alike") + describe_others(failure.others, fate);
}

std::string verdict(const Failure& failure) {
  const auto* node = std::get_if<NodeFailure>(&failure);
  return node != nullptr ? shortened(node->sentence, kLongestSentence)
                         : verdict(std::get<WorkerFailure>(failure));
}

int exit_code_after(const Failure& failure) {
  const auto* node = std::get_if<NodeFailure>(&failure);
  return node != nullptr ? node->exit_code
                         : exit_code_of(std::get<WorkerFailure>(failure).first.status);
}

void say(Console& console, const Failure& failure) {
  if (const auto* worker = std::get_if<WorkerFailure>(&failure)) {
    show_stderr(console, *worker);
    show_frames(console, *worker);
  }
  console.say(verdict(failure));
}

}  // namespace ddp::launcher
