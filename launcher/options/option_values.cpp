// SPDX-License-Identifier: MIT
#include "launcher/options/option_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ddp/base/number_in.h"
#include "ddp/store/wire.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {

WorkerRequest to_workers(const FlagValue& value) {
  using Kind = WorkerRequest::Kind;
  if (value.text == "auto") return {Kind::kAuto, 0};
  if (value.text == "gpu") return {Kind::kGpu, 0};
  if (value.text == "cpu") return {Kind::kCpu, 0};
  const auto number = number_in<int>(value.text);
  if (!number || *number < 1 || *number > kMaxWorldSize) {
    refuse_value(value, fmt::format("a number from 1 to {}, auto, gpu or cpu", kMaxWorldSize));
  }
  return {Kind::kNumber, *number};
}

Show to_show(const FlagValue& value) {
  if (value.text == "all") return {Show::Kind::kAll, {}};
  return {Show::Kind::kListed, to_ranks(value)};
}

StreamSelection to_streams(const FlagValue& value) {
  const auto streams_in = [&value](const std::string& text) {
    const auto streams = number_in<int>(text);
    if (!streams || *streams < 0 || *streams > 3) {
      refuse_value(value, "0 (none), 1 (stdout), 2 (stderr), 3 (both), or such as 0:1,1:2");
    }
    return static_cast<unsigned>(*streams);
  };
  if (value.text.find(':') == std::string::npos) return {streams_in(value.text), {}};
  StreamSelection selection;
  for (const std::string& entry : split(value.text, ',')) {
    const std::size_t colon = entry.find(':');
    const auto local_rank = number_in<int>(entry.substr(0, colon));
    if (colon == std::string::npos || !local_rank || *local_rank < 0) {
      refuse_value(value, "LOCAL_RANK:STREAMS in each part, such as 0:1,1:2");
    }
    selection.by_local_rank[*local_rank] = streams_in(entry.substr(colon + 1));
  }
  return selection;
}

int to_node_count(const FlagValue& value) {
  const std::vector<std::string> range = split(value.text, ':');
  if (range.size() == 2 && range[0] != range[1]) {
    throw LaunchError(
        fmt::format("{}={}: a job does not grow or shrink; give the number of nodes that take part",
                    value.source, value.text));
  }
  if (range.size() > 2) refuse_value(value, "a number of nodes");
  return to_count({value.source, range.front()}, 1, kMaxWorldSize);
}

NodeOptions::Backend to_backend(const FlagValue& value) {
  if (value.text == "static") return NodeOptions::Backend::kStatic;
  if (value.text == "c10d") return NodeOptions::Backend::kC10d;
  throw LaunchError(fmt::format(
      "{}={}: nodes meet in ddp-launch's own store; use static, or c10d, and give node 0's "
      "address as --rdzv_endpoint",
      value.source, value.text));
}

std::string to_run_id(const FlagValue& value) {
  constexpr std::size_t kLongest = wire::kMaxKeyBytes / 2;  // with room for the rest of a key
  if (value.text.size() <= kLongest) return to_text(value, "an id");
  throw LaunchError(fmt::format("{}: an id of {} bytes is over the limit of {}", value.source,
                                value.text.size(), kLongest));
}

std::string to_host(const FlagValue& value) {
  const std::string host = to_text(value, "a host name or address");
  if (host == "[]") refuse_value(value, "a name");
  return host.front() == '[' && host.back() == ']' ? host.substr(1, host.size() - 2) : host;
}

Address to_address(const FlagValue& value) {
  const std::size_t colon = value.text.rfind(':');
  const bool has_port =
      colon != std::string::npos && (value.text.find(':') == colon || value.text[colon - 1] == ']');
  if (!has_port) return {to_host(value), std::nullopt};
  return {to_host({value.source, value.text.substr(0, colon)}),
          to_port({value.source, value.text.substr(colon + 1)})};
}

Timeout to_rendezvous_timeout(const FlagValue& value) {
  std::optional<Timeout> timeout;
  for (const std::string& entry : split(value.text, ',')) {
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals);
    if (equals == std::string::npos || (key != "timeout" && key != "join_timeout")) {
      refuse_value(value, "timeout=SECONDS or join_timeout=SECONDS; leave the others out");
    }
    timeout = to_seconds({value.source + " " + key, entry.substr(equals + 1)});
  }
  return *timeout;
}

std::vector<std::string> to_gpus(const FlagValue& value) {
  std::vector<std::string> gpus = split(value.text, ',');
  for (const std::string& gpu : gpus) {
    const auto index = number_in<int>(gpu);
    const bool is_uuid = gpu.starts_with("GPU-") || gpu.starts_with("MIG-");
    if (!is_uuid && (!index || *index < 0)) {
      refuse_value(value, "indices or UUIDs of GPUs, such as 2,7 or GPU-8f4a...");
    }
    if (std::ranges::count(gpus, gpu) > 1) {
      throw LaunchError(fmt::format("{}={}: GPU {} is named twice", value.source, value.text, gpu));
    }
  }
  return gpus;
}

PlacementOptions::Binding to_binding(const FlagValue& value) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "core", "numa"};
  return static_cast<PlacementOptions::Binding>(to_choice(value, kNames));
}

StoreHost to_store_host(const FlagValue& value) {
  constexpr std::array<std::string_view, 2> kNames = {"agent", "worker"};
  return static_cast<StoreHost>(to_choice(value, kNames));
}

}  // namespace ddp::launcher
