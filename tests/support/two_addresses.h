// SPDX-License-Identifier: MIT
//
// To be included by one source of a test.
#pragma once

#include <dlfcn.h>
#include <netdb.h>

#include <string>
#include <string_view>

// Replaces the C library's function: "A,B" is a host with the two addresses A and B.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  const std::size_t comma = name.find(',');
  if (comma == std::string_view::npos) return real(host, service, hints, found);
  const std::string first(name.substr(0, comma)), second(name.substr(comma + 1));
  if (const int status = real(first.c_str(), service, hints, found); status != 0) return status;
  return real(second.c_str(), service, hints, &(*found)->ai_next);
}
