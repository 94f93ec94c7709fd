# SPDX-License-Identifier: MIT
#
# Defines the header-only dependencies from DDP_VENDORED_HEADERS, which scripts/vendor_headers.sh
# has filled, under the same names as find_package.

set(include ${DDP_VENDORED_HEADERS}/include)

# ddp_add_vendored(fmt::fmt fmt/core.h [definitions…])
function(ddp_add_vendored target header)
  if(NOT EXISTS ${include}/${header})
    message(FATAL_ERROR "${include} has no ${header}: was it made by scripts/vendor_headers.sh?")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${include})
  target_compile_definitions(${target} INTERFACE ${ARGN})
endfunction()

ddp_add_vendored(fmt::fmt fmt/core.h FMT_HEADER_ONLY)
ddp_add_vendored(spdlog::spdlog spdlog/spdlog.h SPDLOG_FMT_EXTERNAL)
target_link_libraries(spdlog::spdlog INTERFACE fmt::fmt)
ddp_add_vendored(cxxopts::cxxopts cxxopts.hpp)
ddp_add_vendored(nlohmann_json::nlohmann_json nlohmann/json.hpp)
if(DDP_BUILD_TESTS)
  ddp_add_vendored(Catch2::Catch2 catch2/catch.hpp)
  set(Catch2_VERSION_MAJOR 2)  # later versions are not header-only
endif()
