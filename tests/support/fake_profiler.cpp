// SPDX-License-Identifier: MIT
//
// Stands in for a profiler: a library that NVTX loads if NVTX_INJECTION64_PATH names it. It counts
// the ranges by name.
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace {

struct Ranges {
  std::mutex mutex;
  std::map<std::string, int> ended;
  std::map<nvtxRangeId_t, std::string> open;
  nvtxRangeId_t last = 0;
};

// Never destroyed, since ranges may end late.
Ranges& ranges() {
  static auto* const all = new Ranges;
  return *all;
}

nvtxRangeId_t NVTX_API start(const char* name) {
  const std::lock_guard lock(ranges().mutex);
  ranges().open[++ranges().last] = name;
  return ranges().last;
}

void NVTX_API end(nvtxRangeId_t id) {
  const std::lock_guard lock(ranges().mutex);
  const auto range = ranges().open.extract(id);
  ++ranges().ended[range.empty() ? "never begun" : range.mapped()];
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) {
    return 0;
  }
  *functions[NVTX_CBID_CORE_RangeStartA] = reinterpret_cast<NvtxFunctionPointer>(start);
  *functions[NVTX_CBID_CORE_RangeEnd] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}

// For the test: how many ranges of this name have ended, and how many ranges are open.
[[gnu::visibility("default")]] int ended_ranges(const char* name) {
  const std::lock_guard lock(ranges().mutex);
  return ranges().ended[name];
}
[[gnu::visibility("default")]] int open_ranges() {
  const std::lock_guard lock(ranges().mutex);
  return static_cast<int>(ranges().open.size());
}

}  // extern "C"
