// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/hello.h"

#include <map>

#include "ddp/base/error.h"
#include "ddp/collectives/nccl/nccl_process_group.h"
#include "ddp/collectives/start/build_id.h"
#include "ddp/cuda/cuda.h"
#include "ddp/version.h"

namespace ddp {

std::string serialize(const Hello& hello) {
  FieldWriter fields;
  fields << hello.build << hello.who << hello.gpu << hello.nccl << hello.nccl_path
         << hello.alone_because << hello.world_size << to_string(hello.backend) << hello.shares_gpu;
  return fields.text();
}

Hello parse_hello(const std::string& text) {
  FieldReader fields(text);
  Hello hello;
  std::string backend;
  fields >> hello.build >> hello.who >> hello.gpu >> hello.nccl >> hello.nccl_path >>
      hello.alone_because >> hello.world_size >> backend >> hello.shares_gpu;
  if (!fields) {
    throw MismatchError("a rank of this job uses another build of libddp, or is no libddp program");
  }
  hello.backend = parse_backend(backend);
  return hello;
}

Hello describe_self(int rank, Device device) {
  Hello self;
  self.who = identify_self(rank, device);
  self.build = std::string(kVersion) + " of build " + std::string(build_id());
  self.alone_because = obstacle_to_sharing();
  if (!device.is_cuda()) return self;
  self.gpu = cu::pci_bus_id(device);
  self.nccl = nccl_version();
  self.nccl_path = nccl_path();
  return self;
}

std::vector<int> hosts_of(const std::vector<Hello>& hellos) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  int count = 0;
  for (const Hello& hello : hellos) {
    const bool is_new = !hello.alone_because.empty() || !numbers.contains(hello.who.host);
    if (is_new) ++count;
    hosts.push_back(is_new ? count - 1 : numbers[hello.who.host]);
    if (is_new && hello.alone_because.empty()) numbers[hello.who.host] = count - 1;
  }
  return hosts;
}

}  // namespace ddp
