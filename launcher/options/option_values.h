// SPDX-License-Identifier: MIT
//
// Parses values of flags that become parts of Options. As in flag_value.h, a value that cannot be
// parsed or is not supported is a LaunchError that names the flag or variable, and the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/flag_value.h"
#include "launcher/options/options.h"

namespace ddp::launcher {

struct Address {
  std::string host;
  std::optional<std::uint16_t> port;
};

[[nodiscard]] WorkerRequest to_workers(const FlagValue& value);
[[nodiscard]] Show to_show(const FlagValue& value);

// "3", or "0:1,1:2": streams 1 of local rank 0 and streams 2 of local rank 1.
[[nodiscard]] StreamSelection to_streams(const FlagValue& value);

// "2", or torchrun's "2:2".
[[nodiscard]] int to_node_count(const FlagValue& value);
[[nodiscard]] NodeOptions::Backend to_backend(const FlagValue& value);

// The name of a job, which all keys of its workers contain: at most 32 KiB.
[[nodiscard]] std::string to_run_id(const FlagValue& value);

// "node0", "10.0.0.1", "::1", or, as torchrun has it, "[::1]".
[[nodiscard]] std::string to_host(const FlagValue& value);
// A host and an optional port: "node0:29400", "[::1]:29400"; "::1" has no port.
[[nodiscard]] Address to_address(const FlagValue& value);

// The supported settings of torchrun's --rdzv_conf.
[[nodiscard]] Timeout to_rendezvous_timeout(const FlagValue& value);

[[nodiscard]] std::vector<std::string> to_gpus(const FlagValue& value);
[[nodiscard]] PlacementOptions::Binding to_binding(const FlagValue& value);
[[nodiscard]] StoreHost to_store_host(const FlagValue& value);

}  // namespace ddp::launcher
