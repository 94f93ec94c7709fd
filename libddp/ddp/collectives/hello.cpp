// SPDX-License-Identifier: MIT
#include "ddp/collectives/hello.h"

#include <unistd.h>

#include <map>
#include <sstream>

#include "ddp/base/error.h"
#include "ddp/collectives/build_id.h"
#include "ddp/collectives/nccl_process_group.h"
#include "ddp/collectives/rank_identity.h"
#include "ddp/cuda/cuda.h"
#include "ddp/version.h"

namespace ddp {

// One field a line: none of them contains a newline.
std::string serialize(const Hello& hello) {
  std::ostringstream text;
  text << hello.build << '\n'
       << hello.rank << '\n'
       << hello.world_size << '\n'
       << hello.host << '\n'
       << hello.host_name << '\n'
       << hello.gpu << '\n'
       << hello.nccl << '\n'
       << hello.nccl_path << '\n'
       << to_string(hello.backend) << '\n'
       << hello.pid << '\n'
       << hello.shares_gpu << '\n'
       << hello.alone_because << '\n';
  return text.str();
}

Hello parse_hello(const std::string& text) {
  std::istringstream lines(text);
  Hello hello;
  std::string backend;
  std::getline(lines, hello.build);
  lines >> hello.rank >> hello.world_size;
  lines.ignore();
  std::getline(lines, hello.host);
  std::getline(lines, hello.host_name);
  std::getline(lines, hello.gpu);
  std::getline(lines, hello.nccl);
  std::getline(lines, hello.nccl_path);
  std::getline(lines, backend);
  lines >> hello.pid >> hello.shares_gpu;
  lines.ignore();
  std::getline(lines, hello.alone_because);
  if (!lines) throw MismatchError("a rank of another libddp build (or no libddp) is in this job");
  hello.backend = parse_backend(backend);
  return hello;
}

Hello describe_self(Device device, Backend backend, bool shares_gpu) {
  Hello self;
  self.build = std::string(kVersion) + " of build " + std::string(build_id());
  self.host = host_identity();
  self.alone_because = obstacle_to_sharing();
  self.host_name = host_name();
  if (device.is_cuda()) {
    self.gpu = cu::pci_bus_id(device);
    self.nccl = nccl_version();
    self.nccl_path = nccl_path();
  }
  self.backend = backend;
  self.pid = ::getpid();
  self.shares_gpu = shares_gpu;
  return self;
}

std::string to_string(const Hello& hello) {
  return "rank " + std::to_string(hello.rank) + " (" + hello.host_name + ", pid " +
         std::to_string(hello.pid) + ")";
}

std::vector<int> hosts_of(const std::vector<Hello>& hellos) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  int count = 0;
  for (const Hello& hello : hellos) {
    const bool is_new = !hello.alone_because.empty() || !numbers.contains(hello.host);
    if (is_new) ++count;
    hosts.push_back(is_new ? count - 1 : numbers[hello.host]);
    if (is_new && hello.alone_because.empty()) numbers[hello.host] = count - 1;
  }
  return hosts;
}

}  // namespace ddp
