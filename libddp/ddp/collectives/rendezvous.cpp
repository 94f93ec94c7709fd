// SPDX-License-Identifier: MIT
#include "ddp/collectives/rendezvous.h"

#include <unistd.h>

#include <map>
#include <sstream>

#include "ddp/base/error.h"
#include "ddp/collectives/build_id.h"
#include "ddp/collectives/host_layout.h"
#include "ddp/collectives/let_all_read.h"
#include "ddp/collectives/nccl_process_group.h"
#include "ddp/collectives/rank_identity.h"
#include "ddp/cuda/cuda.h"
#include "ddp/version.h"

namespace ddp {
namespace {

std::string rank_on(const std::vector<Hello>& hellos, std::size_t rank) {
  return "rank " + std::to_string(rank) + " (" + hellos[rank].host_name + ", pid " +
         std::to_string(hellos[rank].pid) + ")";
}

// All ranks must give the same answer to `property`.
template <class Property>
void check_equal(const std::vector<Hello>& hellos, const char* what, Property property) {
  for (std::size_t rank = 1; rank < hellos.size(); ++rank) {
    if (property(hellos[rank]) == property(hellos[0])) continue;
    throw MismatchError("ranks differ in " + std::string(what) + ": " + rank_on(hellos, 0) +
                        " has " + property(hellos[0]) + ", " + rank_on(hellos, rank) + " has " +
                        property(hellos[rank]));
  }
}

void check_one_rank_per_gpu(const std::vector<Hello>& hellos) {
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      const bool same =
          hellos[rank].host == hellos[other].host && hellos[rank].gpu == hellos[other].gpu;
      if (!same) continue;
      throw EnvironmentError(
          rank_on(hellos, other) + " and " + rank_on(hellos, rank) + " are on the same GPU " +
          hellos[rank].gpu +
          ": start one worker per GPU (ddp-launch -n gpu), allow sharing with ddp-launch "
          "--oversubscribe, or run on the CPU with --device cpu");
    }
  }
}

[[noreturn]] void refuse(Backend asked, const std::string& why) {
  throw EnvironmentError("backend " + std::string(to_string(asked)) + " was asked for, but " + why);
}

void check_all_share_memory(const std::vector<Hello>& hellos) {
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    if (hellos[rank].alone_because.empty()) continue;
    refuse(Backend::kShm, rank_on(hellos, rank) + " cannot share memory: " +
                              hellos[rank].alone_because + ", or use --backend gloo");
  }
}

// What suits CPU ranks that are where they are.
Backend backend_for(const HostLayout& layout) {
  if (layout.host_count() == 1) return Backend::kShm;
  return layout.width() == 1 ? Backend::kGloo : Backend::kShmGloo;
}

Backend check_asked(Backend asked, Backend suitable) {
  if (asked == Backend::kShm && suitable != asked) refuse(asked, "the ranks are on several hosts");
  if (asked != Backend::kShmGloo || suitable == asked) return asked;
  refuse(asked, suitable == Backend::kShm ? "all ranks are on one host; use shm"
                                          : "no two ranks are on one host; use gloo");
}

std::string on_gpu(const Hello& hello) { return hello.gpu.empty() ? "a CPU" : "a GPU"; }

}  // namespace

// One field a line: none of them contains a newline.
std::string serialize(const Hello& hello) {
  std::ostringstream text;
  text << hello.build << '\n'
       << hello.host << '\n'
       << hello.host_name << '\n'
       << hello.gpu << '\n'
       << hello.nccl << '\n'
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
  std::getline(lines, hello.host);
  std::getline(lines, hello.host_name);
  std::getline(lines, hello.gpu);
  std::getline(lines, hello.nccl);
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
  }
  self.backend = backend;
  self.pid = ::getpid();
  self.shares_gpu = shares_gpu;
  return self;
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

Backend choose_backend(const std::vector<Hello>& hellos) {
  check_equal(hellos, "their libddp", [](const Hello& h) { return h.build; });
  check_equal(hellos, "the backend they ask for",
              [](const Hello& h) { return std::string(to_string(h.backend)); });
  check_equal(hellos, "their kind of device", on_gpu);
  const bool on_gpus = !hellos[0].gpu.empty();
  if (on_gpus) {
    check_equal(hellos, "their NCCL", [](const Hello& h) { return h.nccl; });
    if (!hellos[0].shares_gpu) check_one_rank_per_gpu(hellos);
    return Backend::kNccl;
  }
  const Backend asked = hellos[0].backend;
  if (asked == Backend::kShm) check_all_share_memory(hellos);
  const Backend suitable = backend_for(HostLayout(hosts_of(hellos)));
  return asked == Backend::kAuto ? suitable : check_asked(asked, suitable);
}

namespace {

constexpr std::string_view kUse = "use ";
constexpr std::string_view kMismatch = "mismatch: ";

// Rank 0's decision: "use shm 0 0 1", with the hosts of the ranks, or what everybody is to throw:
// "mismatch: " and the text of a MismatchError, or that of an EnvironmentError.
std::string make_plan(Store& store, int world_size, Timeout timeout) {
  try {
    std::vector<Hello> hellos;
    for (int other = 0; other < world_size; ++other) {
      hellos.push_back(parse_hello(store.get("hello/" + std::to_string(other), timeout)));
    }
    std::string plan = std::string(kUse) + std::string(to_string(choose_backend(hellos)));
    for (const int host : hosts_of(hellos)) plan += " " + std::to_string(host);
    return plan;
  } catch (const MismatchError& error) {
    return std::string(kMismatch) + describe(error);
  } catch (const std::exception& error) {
    return describe(error);
  }
}

Plan parse_plan(const std::string& text) {
  std::istringstream words(text);
  std::string backend;
  words >> backend;
  Plan plan{parse_backend(backend), {}};
  for (int host = 0; words >> host;) plan.hosts.push_back(host);
  return plan;
}

}  // namespace

Plan agree_on_plan(Store& store, int rank, int world_size, const Hello& self, Timeout timeout) {
  store.set("hello/" + std::to_string(rank), serialize(self));
  if (rank == 0) store.set("plan", make_plan(store, world_size, timeout));
  const std::string plan = store.get("plan", timeout);
  if (plan.starts_with(kUse)) return parse_plan(plan.substr(kUse.size()));
  let_all_read(store, rank, world_size);
  if (plan.starts_with(kMismatch)) throw MismatchError(plan.substr(kMismatch.size()));
  throw EnvironmentError(plan);
}

}  // namespace ddp
