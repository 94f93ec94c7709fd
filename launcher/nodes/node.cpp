// SPDX-License-Identifier: MIT
#include "launcher/nodes/node.h"

#include <fmt/core.h>

#include <sstream>

#include "launcher/launch_error.h"

namespace ddp::launcher {
namespace {

Node read_node(std::istringstream& lines) {
  Node node;
  std::getline(lines, node.host);
  lines >> node.launcher >> node.workers;
  if (!lines) throw LaunchError(kOtherVersion);
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
  std::istringstream lines(entry);
  return read_node(lines);
}

std::vector<Node> parse_nodes(const std::string& entries, int count) {
  std::istringstream lines(entries);
  std::vector<Node> nodes;
  std::string unique;
  while (static_cast<int>(nodes.size()) < count) {
    nodes.push_back(read_node(lines));
    lines >> unique;
    lines.ignore();  // the end of its line
  }
  return nodes;
}

}  // namespace ddp::launcher
