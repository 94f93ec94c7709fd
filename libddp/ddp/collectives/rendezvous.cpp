// SPDX-License-Identifier: MIT
#include "ddp/collectives/rendezvous.h"

#include <unistd.h>

#include <sstream>

#include "ddp/base/error.h"
#include "ddp/collectives/build_id.h"
#include "ddp/collectives/gloo_process_group.h"
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

bool same_host(const std::vector<Hello>& hellos) {
  for (const Hello& hello : hellos) {
    if (hello.host != hellos[0].host) return false;
  }
  return true;
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
       << hello.shares_gpu;
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
  if (!lines) throw MismatchError("a rank of another libddp build (or no libddp) is in this job");
  hello.backend = parse_backend(backend);
  return hello;
}

Hello describe_self(Device device, Backend backend, bool shares_gpu) {
  Hello self;
  self.build = std::string(kVersion) + " of build " + std::string(build_id());
  self.host = host_identity();
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
  if (asked == Backend::kShm && !same_host(hellos)) {
    throw EnvironmentError("backend shm was asked for, but the ranks are on several hosts");
  }
  if (asked != Backend::kAuto) return asked;
  return same_host(hellos) ? Backend::kShm : Backend::kGloo;
}

namespace {

constexpr std::string_view kUse = "use ";
constexpr std::string_view kMismatch = "mismatch: ";

// Rank 0's decision: "use shm", or what everybody is to throw: "mismatch: " and the text of a
// MismatchError, or that of an EnvironmentError.
std::string make_plan(Store& store, int world_size, Timeout timeout) {
  try {
    std::vector<Hello> hellos;
    for (int other = 0; other < world_size; ++other) {
      hellos.push_back(parse_hello(store.get("hello/" + std::to_string(other), timeout)));
    }
    return std::string(kUse) + std::string(to_string(choose_backend(hellos)));
  } catch (const MismatchError& error) {
    return std::string(kMismatch) + describe(error);
  } catch (const std::exception& error) {
    return describe(error);
  }
}

}  // namespace

Backend agree_on_backend(Store& store, int rank, int world_size, const Hello& self,
                         Timeout timeout) {
  store.set("hello/" + std::to_string(rank), serialize(self));
  if (rank == 0) store.set("plan", make_plan(store, world_size, timeout));
  const std::string plan = store.get("plan", timeout);
  if (plan.starts_with(kUse)) return parse_backend(plan.substr(kUse.size()));
  let_all_read(store, rank, world_size);
  if (plan.starts_with(kMismatch)) throw MismatchError(plan.substr(kMismatch.size()));
  throw EnvironmentError(plan);
}

}  // namespace ddp
