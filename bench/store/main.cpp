// SPDX-License-Identifier: MIT
//
// How many operations per second the store serves, compared with a raw blocking TCP ping-pong of
// the same message sizes, measured in the same rounds.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "ddp/base/system/cpu_count.h"
#include "ddp/store/tcp_server.h"
#include "store/operations.h"
#include "store/throughput.h"
#include "support/command_line.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp;
using namespace ddp::bench;

struct Options {
  std::vector<std::size_t> clients = {1, 8, 64};
  int rounds = 11;
  int slice_ms = 30;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_store", "Operations a second of the TCP store");
  line.add("clients", "how many clients at once, each with its own connection", options.clients);
  line.add("rounds", "interleaved repeats", options.rounds);
  line.add("slice-ms", "length of one repeat", options.slice_ms);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

// With one client, client and server either share a CPU or have one each. The speed of the raw
// ping-pong differs several times between the two, and an unpinned scheduler may switch between
// them in the middle of a run.
enum class Placement { kFree, kOneCpu, kTwoCpus };

std::string_view to_string(Placement placement) {
  switch (placement) {
    case Placement::kFree:
      return "free";
    case Placement::kOneCpu:
      return "1 CPU";
    case Placement::kTwoCpus:
      return "2 CPUs";
  }
  return "unknown";
}

std::vector<Placement> placements(std::size_t clients) {
  if (clients > 1) return {Placement::kFree};
  if (affinity_cpus().size() < 2) return {Placement::kOneCpu};
  return {Placement::kTwoCpus, Placement::kOneCpu};
}

// Runs f while the calling thread, and every thread that it starts, is pinned to the CPU of the
// server or of the client.
template <class F>
auto run_as_server(Placement placement, F&& f) {
  if (placement == Placement::kFree) return f();
  const Pinned pinned(affinity_cpus().front());
  return f();
}

template <class F>
auto run_as_client(Placement placement, F&& f) {
  if (placement == Placement::kFree) return f();
  const std::vector<int> cpus = affinity_cpus();
  const Pinned pinned(placement == Placement::kOneCpu ? cpus.front() : cpus.back());
  return f();
}

Table make_table() {
  return Table({{"clients", 7},
                {"on", 6},
                {"operation", 9},
                {"ping-pong/s", 11},
                {"+-", 4},
                {"no spin/s", 9},
                {"+-", 4},
                {"ratio", 5},
                {"+-", 4},
                {"client spins/s", 14},
                {"+-", 4},
                {"ratio", 5},
                {"+-", 4},
                {"both spin/s", 11},
                {"+-", 4},
                {"ratio", 5},
                {"+-", 4}});
}

std::string percent(const Summary& summary) {
  return fmt::format("{:.0f}%", summary.spread_percent());
}

std::vector<std::string> row(const std::vector<Variant>& variants) {
  std::vector<std::string> cells;
  for (const Variant& variant : variants) {
    const Summary rate = summarize(variant.samples);
    cells.insert(cells.end(), {fmt::format("{:.0f}", rate.median), percent(rate)});
    if (&variant == &variants.front()) continue;
    const Summary to_raw = ratio(variant.samples, variants.front().samples);
    cells.insert(cells.end(), {fmt::format("{:.2f}", to_raw.median), percent(to_raw)});
  }
  return cells;
}

void measure(const Operation& operation, std::size_t count, Placement placement,
             const Options& options, const Table& table) {
  using namespace std::chrono_literals;
  const auto serve = [&](std::chrono::microseconds spin) {
    return run_as_server(placement, [&] {
      return std::make_unique<TcpServer>(Endpoint{"127.0.0.1", 0}, TcpServerOptions{.spin = spin});
    });
  };
  const auto sleeping = serve(0us);
  const auto spinning = serve(kDefaultStoreSpin);
  const auto variant = [&](const char* name, Clients clients) {
    return Variant{name, [&options, placement, clients = std::move(clients)] {
                     return run_as_client(placement, [&] {
                       return operations_per_second(clients,
                                                    std::chrono::milliseconds(options.slice_ms));
                     });
                   }};
  };
  std::vector<Variant> variants{
      variant("ping-pong",
              run_as_server(placement, [&] { return ping_pong_clients(operation, count); })),
      variant("no spin", store_clients(operation, count, *sleeping, 0us)),
      variant("client spins", store_clients(operation, count, *sleeping, kDefaultStoreSpin)),
      variant("both spin", store_clients(operation, count, *spinning, kDefaultStoreSpin))};
  interleave(variants, options.rounds);
  std::vector<std::string> cells{std::to_string(count), std::string(to_string(placement)),
                                 operation.name};
  const std::vector<std::string> figures = row(variants);
  cells.insert(cells.end(), figures.begin(), figures.end());
  table.print_row(cells);
}

void run(const Options& options) {
  std::puts(header_line("bench_store").c_str());
  std::puts(
      "# Operations a second of all clients together, medians; +- is half the interquartile "
      "range. Ratios are to the ping-pong of the same round.");
  const Table table = make_table();
  table.print_titles();
  for (const std::size_t count : options.clients) {
    for (const Placement placement : placements(count)) {
      for (const Operation& operation : operations()) {
        measure(operation, count, placement, options, table);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_store", [&] {
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
