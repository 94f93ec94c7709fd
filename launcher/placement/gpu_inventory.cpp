// SPDX-License-Identifier: MIT
#include "launcher/placement/gpu_inventory.h"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>

#include "ddp/base/system/dynamic_library.h"
#include "launcher/processes/call_in_child.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

// NVML starts in a few seconds if it must wake each GPU first, and never if a driver hangs.
constexpr Timeout kPatience = std::chrono::seconds(60);

// The NVML functions needed here, declared as in nvml.h, whose installation is not required.
class Nvml {
 public:
  using Device = void*;

  Nvml() = default;
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (initialised_) call<int()>("nvmlShutdown");
  }

  // Returns the problem; empty if NVML is ready.
  [[nodiscard]] std::string initialise() {
    if (!library_.is_open()) return "libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver";
    const int status = call<int()>("nvmlInit_v2");
    initialised_ = status == 0;
    if (initialised_) return "";
    return fmt::format("NVML does not start: {} (error {})", error_string(status), status);
  }

  [[nodiscard]] unsigned device_count() const {
    unsigned count = 0;
    return call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count) == 0 ? count : 0;
  }

  // Queries of a null handle return empty results.
  [[nodiscard]] Device device(unsigned index) const {
    Device device = nullptr;
    call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
    return device;
  }

  [[nodiscard]] std::string uuid(Device device) const {
    std::array<char, 96> text{};
    const auto size = static_cast<unsigned>(text.size());
    if (device == nullptr ||
        call<int(Device, char*, unsigned)>("nvmlDeviceGetUUID", device, text.data(), size) != 0) {
      return "";
    }
    return text.data();
  }

  [[nodiscard]] std::string bus_id(Device device) const {
    PciInfo info{};
    if (device == nullptr ||
        call<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &info) != 0) {
      return "";
    }
    return fmt::format("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device);
  }

  [[nodiscard]] std::vector<std::string> mig_uuids(Device device) const {
    std::vector<std::string> uuids;
    unsigned count = 0;
    if (device == nullptr ||
        call<int(Device, unsigned*)>("nvmlDeviceGetMaxMigDeviceCount", device, &count) != 0) {
      return uuids;
    }
    for (unsigned index = 0; index < count; ++index) {
      Device instance = nullptr;
      call<int(Device, unsigned, Device*)>("nvmlDeviceGetMigDeviceHandleByIndex", device, index,
                                           &instance);
      if (std::string text = uuid(instance); !text.empty()) uuids.push_back(std::move(text));
    }
    return uuids;
  }

 private:
  struct PciInfo {  // nvmlPciInfo_t
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned device_id;
    unsigned subsystem_id;
    char bus_id[32];
  };

  // A missing function counts as failed; 13 is NVML_ERROR_FUNCTION_NOT_FOUND.
  template <typename Signature, typename... Args>
  int call(const char* name, Args... args) const {
    Signature* function = nullptr;
    return library_.find(name, function) ? function(args...) : 13;
  }

  // Such as "Driver/library version mismatch" after an update of a driver in use.
  [[nodiscard]] const char* error_string(int status) const {
    const char* (*function)(int) = nullptr;
    return library_.find("nvmlErrorString", function) ? function(status) : "unknown error";
  }

  DynamicLibrary library_{"libnvidia-ml.so.1", DynamicLibrary::Lifetime::kThis};
  bool initialised_ = false;
};

GpuInventory ask_nvml() {
  Nvml nvml;
  GpuInventory inventory;
  inventory.problem = nvml.initialise();
  if (!inventory.problem.empty()) return inventory;
  const unsigned count = nvml.device_count();
  for (unsigned index = 0; index < count; ++index) {
    const Nvml::Device device = nvml.device(index);
    inventory.gpus.push_back(
        {.uuid = nvml.uuid(device), .bus_id = nvml.bus_id(device), .mig = nvml.mig_uuids(device)});
  }
  if (count == 0) inventory.problem = "the NVIDIA driver lists no GPU";
  return inventory;
}

std::string to_json(const GpuInventory& inventory) {
  Json json = {{"gpus", Json::array()}, {"problem", inventory.problem}};
  for (const Gpu& gpu : inventory.gpus) {
    json["gpus"].push_back({{"uuid", gpu.uuid}, {"bus_id", gpu.bus_id}, {"mig", gpu.mig}});
  }
  return json.dump();
}

GpuInventory inventory_of(const std::string& text) {
  const Json json = Json::parse(text);
  GpuInventory inventory{.gpus = {}, .problem = json.at("problem")};
  for (const Json& gpu : json.at("gpus")) {
    inventory.gpus.push_back(
        {.uuid = gpu.at("uuid"), .bus_id = gpu.at("bus_id"), .mig = gpu.at("mig")});
  }
  return inventory;
}

}  // namespace

GpuInventory find_gpus() {
  std::string answer;
  try {
    answer = call_in_child([] { return to_json(ask_nvml()); }, kPatience);
  } catch (const std::exception& error) {
    return {.gpus = {}, .problem = fmt::format("the process that asks NVML {}", error.what())};
  }
  return inventory_of(answer);
}

std::string describe_gpus(const GpuInventory& inventory) {
  if (inventory.gpus.empty()) return "none: " + inventory.problem;
  std::string text;
  for (std::size_t index = 0; index < inventory.gpus.size(); ++index) {
    const Gpu& gpu = inventory.gpus[index];
    text += fmt::format("{}{} {}", index == 0 ? "" : ", ", index, gpu.uuid);
    for (const std::string& instance : gpu.mig) text += " " + instance;
  }
  return text;
}

}  // namespace ddp::launcher
