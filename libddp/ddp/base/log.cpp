// SPDX-License-Identifier: MIT
#include "ddp/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

namespace ddp::logging {
namespace {

std::atomic<int> rank_or_minus_one{-1};

spdlog::level::level_enum level_from_environment() {
  const char* value = std::getenv("DDP_LOG_LEVEL");
  const std::string name = value == nullptr ? "warning" : value;
  return name == "debug"   ? spdlog::level::debug
         : name == "info"  ? spdlog::level::info
         : name == "error" ? spdlog::level::err
         : name == "off"   ? spdlog::level::off
                           : spdlog::level::warn;
}

// Leaked on purpose, and kept out of spdlog's registry, which exit() would destroy.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto* made = new spdlog::logger("ddp", std::move(sink));
    made->set_pattern("[ddp] %l: %v");
    made->set_level(level_from_environment());
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

void write(spdlog::level::level_enum level, std::string_view message) {
  const int rank = rank_or_minus_one.load(std::memory_order_relaxed);
  if (rank < 0) {
    logger().log(level, "{}", message);
  } else {
    logger().log(level, "[rank {}] {}", rank, message);
  }
}

}  // namespace

void set_rank(int rank) { rank_or_minus_one.store(rank, std::memory_order_relaxed); }

void debug(std::string_view message) { write(spdlog::level::debug, message); }
void info(std::string_view message) { write(spdlog::level::info, message); }
void warning(std::string_view message) { write(spdlog::level::warn, message); }
void error(std::string_view message) { write(spdlog::level::err, message); }

}  // namespace ddp::logging
