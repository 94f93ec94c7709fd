// SPDX-License-Identifier: MIT
//
// To be included by one source of a test.
#pragma once

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <string>
#include <string_view>

// Replaces the C library's function: "A,B" is a host with the two addresses A and B, and "A>B" one
// that has A the first time that any such name is asked for, and then B.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  if (const std::size_t arrow = name.find('>'); arrow != std::string_view::npos) {
    static std::atomic<bool> has_changed = false;
    if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
    const std::string now(has_changed.exchange(true) ? name.substr(arrow + 1)
                                                     : name.substr(0, arrow));
    return real(now.c_str(), service, hints, found);
  }
  const std::size_t comma = name.find(',');
  if (comma == std::string_view::npos) return real(host, service, hints, found);
  const std::string first(name.substr(0, comma)), second(name.substr(comma + 1));
  if (const int status = real(first.c_str(), service, hints, found); status != 0) return status;
  return real(second.c_str(), service, hints, &(*found)->ai_next);
}
