// SPDX-License-Identifier: MIT
//
// What starting costs: the launcher around a program that does nothing, and the way through
// init_process_group, one all_reduce and out again.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cxxopts.hpp>
#include <filesystem>
#include <optional>

#include "launch/command.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp::bench;

struct Options {
  int rounds;
  std::string bin;  // where ddp-launch and the examples are
};

struct Case {
  std::vector<std::string> command;
  std::optional<double> target_ms = std::nullopt;
};

std::string own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_launch", "Milliseconds from start to end of whole jobs");
  auto add = parser.add_options();
  add("rounds", "interleaved repeats", cxxopts::value<int>()->default_value("30"));
  add("bin", "folder of ddp-launch and the examples (default: this program's)",
      cxxopts::value<std::string>(), "DIR");
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  const cxxopts::ParseResult& parsed = *given;
  return Options{.rounds = parsed["rounds"].as<int>(),
                 .bin = parsed.count("bin") > 0 ? parsed["bin"].as<std::string>() : own_folder()};
}

// True if every program that the command names is here.
bool can_run_all(const Case& each) {
  const auto is_flag_or_runs = [](const std::string& word) {
    return word.front() != '/' || can_run(word);
  };
  return can_run(each.command.front()) &&
         std::all_of(each.command.begin(), each.command.end(), is_flag_or_runs);
}

// What this machine cannot run is left out.
std::vector<Case> cases(const std::string& bin) {
  const std::string launch = bin + "/ddp-launch";
  const std::string all_reduce = bin + "/all_reduce";
  std::vector<Case> all{
      {.command = {"/bin/true"}},
      {.command = {launch, "-n", "2", "/bin/true"}, .target_ms = 20},
      {.command = {launch, "-n", "8", "/bin/true"}},
      {.command = {all_reduce}},
      {.command = {launch, "-n", "2", all_reduce}, .target_ms = 60},
      {.command = {"mpirun", "-n", "2", "/bin/true"}},
  };
  std::erase_if(all, [](const Case& each) { return !can_run_all(each); });
  return all;
}

// mpirun refuses root unless it is told, twice, that we know; what it starts here is /bin/true.
void let_root_use_mpirun() {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

std::string text_of(const Case& each) {
  std::string text;
  for (const std::string& word : each.command) {
    text += (text.empty() ? "" : " ") + std::filesystem::path(word).filename().string();
  }
  return text;
}

void print(const std::vector<Case>& all, const std::vector<Variant>& variants) {
  const Table table(
      {{"command", 26}, {"median(ms)", 10}, {"+-", 4}, {"best(ms)", 8}, {"target(ms)", 10}});
  table.print_titles();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<double>& samples = variants[i].samples;
    const Summary time = summarize(samples);
    table.print_row({variants[i].name, fmt::format("{:.1f}", time.median),
                     fmt::format("{:.0f}%", time.spread_percent()),
                     fmt::format("{:.1f}", *std::min_element(samples.begin(), samples.end())),
                     all[i].target_ms ? fmt::format("{:.0f}", *all[i].target_ms) : ""});
  }
}

void run(const Options& options) {
  let_root_use_mpirun();
  const std::vector<Case> all = cases(options.bin);
  std::vector<Variant> variants;
  for (const Case& each : all) {
    variants.push_back({text_of(each), [&] { return run_milliseconds(each.command); }});
  }
  interleave(variants, options.rounds);
  std::puts(header_line("bench_launch").c_str());
  fmt::print(
      "# Whole processes, start to exit; medians of {} interleaved runs; +- is half the "
      "interquartile range\n",
      options.rounds);
  print(all, variants);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_launch", [&] {
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
