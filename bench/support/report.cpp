// SPDX-License-Identifier: MIT
#include "support/report.h"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace ddp::bench {
namespace {

// The value of the first "name : value" in /proc/cpuinfo.
std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? std::string("Linux ") + names.release : "unknown kernel";
}

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

}  // namespace

std::string header_line(const std::string& name) {
  return fmt::format("# {} · {}, {} CPUs · {} · load {:.1f} · {:%Y-%m-%d %H:%M} UTC · {}", name,
                     cpu_model(), std::thread::hardware_concurrency(), kernel_release(),
                     load_average(), fmt::gmtime(std::time(nullptr)), DDP_BUILD_TYPE);
}

std::string rounded(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::print_titles() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  print_row(titles);
}

void Table::print_row(const std::vector<std::string>& cells) const {
  if (cells.size() != columns_.size()) {
    throw std::invalid_argument(
        fmt::format("Table: {} cells for {} columns", cells.size(), columns_.size()));
  }
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", cells[i], columns_[i].width);
  }
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace ddp::bench
