// SPDX-License-Identifier: MIT
#include "ddp/base/log.h"

// This file has a spdlog of its own, in a namespace of its own: spdlog's symbols have no version,
// so a program's own spdlog, of another one, would otherwise be called from here.
#undef SPDLOG_COMPILED_LIB
#undef SPDLOG_SHARED_LIB
#define SPDLOG_HEADER_ONLY
#define spdlog ddp_spdlog

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

namespace ddp::logging {
namespace {

std::atomic<int> rank_or_minus_one{-1};

// The level with this name, if any.
std::optional<spdlog::level::level_enum> level_of(std::string_view name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warning") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  if (name == "off") return spdlog::level::off;
  return std::nullopt;
}

// One rank's complaint about a wrong name is enough.
void set_level_from_environment(spdlog::logger& logger) {
  const char* value = std::getenv("DDP_LOG_LEVEL");
  const std::string_view name = value == nullptr || *value == '\0' ? "warning" : value;
  const auto level = level_of(name);
  logger.set_level(level.value_or(spdlog::level::warn));
  if (level || rank_or_minus_one > 0) return;
  logger.warn(
      "DDP_LOG_LEVEL={} is not one of debug, info, warning, error, off; it counts as warning",
      name);
}

// Leaked on purpose, and kept out of spdlog's registry, which exit() would destroy.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto* made = new spdlog::logger("ddp", std::move(sink));
    made->set_pattern("[ddp] %l: %v");
    made->flush_on(spdlog::level::debug);
    set_level_from_environment(*made);
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
