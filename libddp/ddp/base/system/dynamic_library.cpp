// SPDX-License-Identifier: MIT
#include "ddp/base/system/dynamic_library.h"

#include <dlfcn.h>

#include <utility>

#include "ddp/base/error.h"

namespace ddp {
namespace {

int flags_for(DynamicLibrary::Lifetime lifetime) {
  switch (lifetime) {
    case DynamicLibrary::Lifetime::kProcess:
      return RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    case DynamicLibrary::Lifetime::kThisIfThere:
      return RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD;
    case DynamicLibrary::Lifetime::kThis:
      break;
  }
  return RTLD_NOW | RTLD_LOCAL;
}

}  // namespace

DynamicLibrary::DynamicLibrary(std::string name, Lifetime lifetime)
    : name_(std::move(name)), handle_(::dlopen(name_.c_str(), flags_for(lifetime))) {
  if (is_open()) return;
  const char* reason = ::dlerror();
  problem_ = reason != nullptr ? reason : name_ + " is not loaded";
}

void DynamicLibrary::Close::operator()(void* handle) const { ::dlclose(handle); }

void* DynamicLibrary::symbol(const char* name) const {
  return is_open() ? ::dlsym(handle_.get(), name) : nullptr;
}

void DynamicLibrary::throw_missing(const char* name) const {
  throw Error("[dynamic_library] " + name_ + " has no function " + name);
}

}  // namespace ddp
