// SPDX-License-Identifier: MIT
//
// A fake libnvidia-ml.so.1 for ddp-launch. The variable FAKE_GPUS gives the number of GPUs, and
// FAKE_NVML_ERROR the code with which the start fails; it may also be "crash" or "hang". Like the
// real library of driver 580, it leaves a thread behind.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

struct Device {
  unsigned index;
};

Device devices[16];

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
};

constexpr int kNotFound = 6;

unsigned count_gpus() {
  const char* text = std::getenv("FAKE_GPUS");
  return text == nullptr ? 0 : static_cast<unsigned>(std::atoi(text));
}

void leave_thread() {
  pthread_t thread{};
  const auto sleep_on = [](void*) -> void* {
    for (;;) ::pause();
  };
  if (::pthread_create(&thread, nullptr, sleep_on, nullptr) == 0) ::pthread_detach(thread);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int nvmlInit_v2() {
  leave_thread();
  const char* text = std::getenv("FAKE_NVML_ERROR");
  if (text == nullptr) return 0;
  if (text == std::string_view("crash")) std::abort();
  if (text == std::string_view("hang")) {
    std::fputs("NVML hangs\n", stderr);
    for (;;) ::pause();
  }
  return std::atoi(text);
}

[[gnu::visibility("default")]] const char* nvmlErrorString(int) { return "what NVML says"; }

[[gnu::visibility("default")]] int nvmlShutdown() { return 0; }

[[gnu::visibility("default")]] int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = count_gpus();
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= count_gpus()) return kNotFound;
  devices[index].index = index;
  *device = &devices[index];
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-fake%u", static_cast<Device*>(device)->index);
  return 0;
}

[[gnu::visibility("default")]] int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  info->domain = 0;
  info->bus = 16 + static_cast<Device*>(device)->index;
  info->device = 0;
  return 0;
}
}
