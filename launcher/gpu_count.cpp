// SPDX-License-Identifier: MIT
#include "launcher/gpu_count.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>

namespace ddp::launcher {
namespace {

// The five NVML functions needed here, declared as in nvml.h, whose installation is not required.
class Nvml {
 public:
  using Device = void*;

  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL), &close) {}
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (initialised_) call<int()>("nvmlShutdown");
  }

  // Returns what is wrong; empty if NVML is ready.
  [[nodiscard]] std::string initialise() {
    if (!library_) return "libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver";
    const int status = call<int()>("nvmlInit_v2");
    initialised_ = status == 0;
    return initialised_ ? "" : fmt::format("NVML does not start (error {})", status);
  }

  [[nodiscard]] unsigned device_count() const {
    unsigned count = 0;
    return call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count) == 0 ? count : 0;
  }

  [[nodiscard]] std::string uuid(unsigned index) const {
    Device device = nullptr;
    std::array<char, 96> text{};
    if (call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device) != 0 ||
        call<int(Device, char*, unsigned)>("nvmlDeviceGetUUID", device, text.data(),
                                           static_cast<unsigned>(text.size())) != 0) {
      return "";
    }
    return text.data();
  }

 private:
  static void close(void* library) {
    if (library != nullptr) ::dlclose(library);
  }

  // A function that is missing counts as failed; 13 is NVML_ERROR_FUNCTION_NOT_FOUND.
  template <typename Signature, typename... Args>
  int call(const char* name, Args... args) const {
    auto* function = reinterpret_cast<Signature*>(::dlsym(library_.get(), name));
    return function == nullptr ? 13 : function(args...);
  }

  std::unique_ptr<void, void (*)(void*)> library_;
  bool initialised_ = false;
};

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// What an entry names: a canonical text (equal for equal GPUs), or nothing.
std::optional<std::string> resolve(const GpuInventory& gpus, std::string_view entry) {
  if (entry.starts_with("MIG-")) return std::string(entry);
  if (entry.starts_with("GPU-")) {
    const auto is_meant = [entry](const std::string& uuid) { return uuid.starts_with(entry); };
    const auto found = std::ranges::find_if(gpus.uuids, is_meant);
    if (found == gpus.uuids.end() ||
        std::find_if(found + 1, gpus.uuids.end(), is_meant) != gpus.uuids.end()) {
      return std::nullopt;  // unknown, or an ambiguous prefix
    }
    return std::to_string(found - gpus.uuids.begin());
  }
  std::size_t index = 0;
  const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error != std::errc() || index >= gpus.uuids.size()) return std::nullopt;
  return std::to_string(index);
}

}  // namespace

GpuInventory find_gpus() {
  Nvml nvml;
  GpuInventory gpus;
  gpus.problem = nvml.initialise();
  if (!gpus.problem.empty()) return gpus;
  const unsigned count = nvml.device_count();
  for (unsigned index = 0; index < count; ++index) gpus.uuids.push_back(nvml.uuid(index));
  if (count == 0) gpus.problem = "the NVIDIA driver lists no GPU";
  return gpus;
}

int visible_gpus(const GpuInventory& gpus, const std::optional<std::string>& cuda_visible_devices) {
  if (!cuda_visible_devices) return static_cast<int>(gpus.uuids.size());
  if (gpus.uuids.empty()) return 0;
  std::vector<std::string> seen;
  for (const std::string_view entry : split_at_commas(*cuda_visible_devices)) {
    std::optional<std::string> gpu = resolve(gpus, entry);
    if (!gpu) break;
    if (std::ranges::find(seen, *gpu) != seen.end()) return 0;
    seen.push_back(std::move(*gpu));
  }
  return static_cast<int>(seen.size());
}

}  // namespace ddp::launcher
