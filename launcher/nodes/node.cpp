// SPDX-License-Identifier: MIT
#include "launcher/nodes/node.h"

#include <fmt/core.h>

#include "ddp/base/field_lines.h"
#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

Node read_node(FieldReader& fields) {
  Node node;
  fields >> node.host >> node.launcher >> node.workers;
  if (!fields) throw LaunchError(kOtherVersion);
  return node;
}

}  // namespace

std::string describe_node(int rank, const std::string& host) {
  return fmt::format("node {} ({})", rank, host);
}

std::string serialize(const Node& node) {
  return fmt::format("{}\n{}\n{}\n", node.host, node.launcher, node.workers);
}

Node parse_node(const std::string& entry) {
  FieldReader fields(entry);
  return read_node(fields);
}

std::vector<Node> parse_nodes(const std::string& entries, int count) {
  FieldReader fields(entries);
  std::vector<Node> nodes;
  std::string unique;
  while (static_cast<int>(nodes.size()) < count) {
    nodes.push_back(read_node(fields));
    fields >> unique;
  }
  return nodes;
}

}  // namespace ddp::launcher
