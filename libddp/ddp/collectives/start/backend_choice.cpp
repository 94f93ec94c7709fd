// SPDX-License-Identifier: MIT
#include "ddp/collectives/start/backend_choice.h"

#include "ddp/base/error.h"
#include "ddp/collectives/peers/host_layout.h"

namespace ddp {
namespace {

// All ranks must have the same `property`; `describe` returns its text for messages.
template <class Property, class Describe>
void check_equal(const std::vector<Hello>& hellos, const char* what, Property property,
                 Describe describe) {
  const Hello& first = hellos[0];
  for (const Hello& other : hellos) {
    if (property(other) == property(first)) continue;
    throw MismatchError("ranks differ in " + std::string(what) + ": " + to_string(first.who) +
                        " has " + describe(first) + ", " + to_string(other.who) + " has " +
                        describe(other));
  }
}

template <class Property>
void check_equal(const std::vector<Hello>& hellos, const char* what, Property property) {
  check_equal(hellos, what, property, property);
}

void check_one_rank_per_gpu(const std::vector<Hello>& hellos) {
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      const bool same =
          hellos[rank].who.host == hellos[other].who.host && hellos[rank].gpu == hellos[other].gpu;
      if (!same) continue;
      throw EnvironmentError(
          to_string(hellos[other].who) + " and " + to_string(hellos[rank].who) +
          " are on the same GPU " + hellos[rank].gpu +
          ": start one worker per GPU, let a launcher allow sharing (ddp-launch sets "
          "DDP_OVERSUBSCRIBE and what NCCL needs for it), or run on the CPU (InitOptions::device)");
    }
  }
}

[[noreturn]] void refuse(Backend asked, const std::string& why) {
  throw EnvironmentError("backend " + std::string(to_string(asked)) + " was asked for, but " + why);
}

void check_all_share_memory(const std::vector<Hello>& hellos) {
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    if (hellos[rank].alone_because.empty()) continue;
    refuse(Backend::kShm, to_string(hellos[rank].who) +
                              " cannot share memory: " + hellos[rank].alone_because +
                              ", or choose tcp (InitOptions::backend)");
  }
}

// The backend for CPU ranks on these hosts.
Backend backend_for(const HostLayout& layout) {
  if (layout.host_count() == 1) return Backend::kShm;
  return layout.width() == 1 ? Backend::kTcp : Backend::kShmTcp;
}

Backend check_asked(Backend asked, Backend suitable) {
  if (asked == Backend::kShm && suitable != asked) refuse(asked, "the ranks are on several hosts");
  if (asked != Backend::kShmTcp || suitable == asked) return asked;
  refuse(asked, suitable == Backend::kShm ? "all ranks are on one host; use shm"
                                          : "no two ranks are on one host; use tcp");
}

std::string on_gpu(const Hello& hello) { return hello.gpu.empty() ? "a CPU" : "a GPU"; }

}  // namespace

Backend choose_backend(const std::vector<Hello>& hellos) {
  check_equal(hellos, "their libddp", [](const Hello& h) { return h.build; });
  check_equal(hellos, "the backend they ask for",
              [](const Hello& h) { return std::string(to_string(h.backend)); });
  check_equal(hellos, "their kind of device", on_gpu);
  const bool on_gpus = !hellos[0].gpu.empty();
  if (on_gpus) {
    check_equal(
        hellos, "their NCCL", [](const Hello& h) { return h.nccl; },
        [](const Hello& h) { return h.nccl + " from " + h.nccl_path; });
    if (!hellos[0].shares_gpu) check_one_rank_per_gpu(hellos);
    return Backend::kNccl;
  }
  const Backend asked = hellos[0].backend;
  if (asked == Backend::kShm) check_all_share_memory(hellos);
  const Backend suitable = backend_for(HostLayout(hosts_of(hellos)));
  return asked == Backend::kAuto ? suitable : check_asked(asked, suitable);
}

}  // namespace ddp
