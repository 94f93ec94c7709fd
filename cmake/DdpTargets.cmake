# SPDX-License-Identifier: MIT
#
# Functions that define our targets. They do not touch targets of other projects.

# Sets the language, warnings and visibility of one of our targets.
function(ddp_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  # CMake 3.25 does not know C++20 for nvcc, and silently ignores CUDA_STANDARD 20.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  # GCC 12 wrongly reports overlaps in "literal" + std::string (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  if(DDP_WARNINGS_AS_ERRORS)
    set(cxx_errors -Werror)
    set(cuda_errors -Werror=all-warnings)
  endif()
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow ${cxx_errors}>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra ${cuda_errors}>)
endfunction()

# Options for sources that use precompiled headers.
function(ddp_uses_precompiled_headers target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(options -fpch-preprocess)  # for ccache, with CCACHE_SLOPPINESS=pch_defines,time_macros
  # GCC 12 gives more of its wrong warnings (see above) about headers that were precompiled.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND options -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
endfunction()

# Parses the headers that most of the target's sources include only once, if asked to.
function(ddp_precompile_headers target)
  if(NOT DDP_PRECOMPILED_HEADERS)
    return()
  endif()
  set(headers "")
  foreach(header algorithm chrono cstdint filesystem functional map memory mutex optional span
          stdexcept string string_view thread utility vector)
    list(APPEND headers $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
  endforeach()
  get_target_property(libraries ${target} LINK_LIBRARIES)
  if("fmt::fmt" IN_LIST libraries)
    list(APPEND headers $<$<COMPILE_LANGUAGE:CXX>:<fmt/core.h$<ANGLE-R>>)
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
  ddp_uses_precompiled_headers(${target})
endfunction()

# ddp_add_library(ddp_samplers NAME samplers HEADERS ddp/a.h … SOURCES ddp/a.cpp …
#   [LINK …] [LINK_PRIVATE …])
# Adds a static library whose include root is the current folder; other projects see it as
# ddp::NAME. HEADERS are the public headers, which are installed and include none of our other
# headers (scripts/check.sh).
function(ddp_add_library target)
  cmake_parse_arguments(ARG "" "NAME" "HEADERS;SOURCES;LINK;LINK_PRIVATE" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(ddp::${ARG_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${ARG_NAME})
  if(NOT DDP_INSTALL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE ${ARG_LINK_PRIVATE})
  ddp_target_defaults(${target})
  ddp_precompile_headers(${target})
  set_property(GLOBAL APPEND PROPERTY DDP_LIBRARIES ${target})
endfunction()

# ddp_add_executable(train SOURCES a.cpp … LINK …)
function(ddp_add_executable target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LINK})
  ddp_target_defaults(${target})
endfunction()
