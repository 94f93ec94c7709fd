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
  target_compile_options(${target} PUBLIC
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>>)
  # Where every processor has an instruction for a product and a sum, as each 64-bit ARM has, compilers
  # use it by default, and it rounds only once. Without it a step changes parameters alike on all ranks
  # of a job, whatever their processors (but for what the C library computes, such as the cosine of a
  # learning rate), and a vector's lanes are rounded like the elements after them.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
  # GCC 12 wrongly reports overlaps in "literal" + std::string (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  # In a unity build a source file is as an include file to GCC, which then warns of classes with
  # members of its anonymous namespace.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(is_unity $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
    target_compile_options(${target} PRIVATE
      $<$<AND:$<COMPILE_LANGUAGE:CXX>,${is_unity}>:-Wno-subobject-linkage>)
  endif()
  # A project around this one may make its own warnings errors (see ddp_drop_foreign_warnings, too).
  set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error>)
  endif()
  if(DDP_WARNINGS_AS_ERRORS)
    set(cxx_errors -Werror)
    set(cuda_errors -Werror=all-warnings)
  endif()
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow ${cxx_errors}>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>  # no part of GCC's -Wconversion
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra ${cuda_errors}>)
endfunction()

# Removes the warnings that add_compile_options() of a project around this one has chosen for its
# own sources; nvcc does not even take them. What stands in a generator expression remains, of which
# an element of the list may be only a part. For the current folder and those added later.
function(ddp_drop_foreign_warnings)
  get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
  set(kept "")
  set(depth 0)  # of generator expressions
  foreach(option IN LISTS options)
    string(REGEX MATCHALL "\\$<" begins "${option}")
    string(REGEX MATCHALL ">" ends "${option}")
    list(LENGTH begins begins)
    list(LENGTH ends ends)
    set(is_plain FALSE)
    if(depth EQUAL 0 AND begins EQUAL 0)
      set(is_plain TRUE)
    endif()
    math(EXPR depth "${depth} + ${begins} - ${ends}")
    # -Wp,… and -Wa,… are no warnings.
    if(NOT is_plain OR NOT option MATCHES "^-(W[^,]*|pedantic.*)$")
      list(APPEND kept "${option}")
    endif()
  endforeach()
  set_property(DIRECTORY PROPERTY COMPILE_OPTIONS "${kept}")
endfunction()

# CMAKE_UNITY_BUILD leaves these sources apart. For those that tests replace by others of the same
# functions, since the linker takes those only in place of an object file that has nothing else; and
# for those whose helpers have the names of others'.
function(ddp_keep_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# ddp_add_library(ddp_samplers NAME samplers HEADERS ddp/a.h … SOURCES ddp/a.cpp …
#   [LINK …] [LINK_PRIVATE …])
# Adds a static library whose include root is the current folder; other projects see it as
# ddp::NAME. HEADERS are the public headers, which are installed and include none of our other
# headers (scripts/check.sh).
function(ddp_add_library target)
  cmake_parse_arguments(ARG "" "NAME" "HEADERS;SOURCES;LINK;LINK_PRIVATE" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  # CMake 3.31 would unite kernels, too, whose helpers have the same names.
  set(kernels ${ARG_SOURCES})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_library(ddp::${ARG_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${ARG_NAME})
  if(NOT DDP_INSTALL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR} FILES ${ARG_HEADERS})
  # In a project that uses the installed libraries these targets may be others.
  if(fmt::fmt IN_LIST ARG_LINK_PRIVATE)
    list(APPEND ARG_LINK_PRIVATE "$<INSTALL_INTERFACE:${DDP_INSTALLED_FMT}>")
  endif()
  list(TRANSFORM ARG_LINK_PRIVATE REPLACE "^((fmt|nlohmann_json)::.+)$" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE ${ARG_LINK_PRIVATE})
  ddp_target_defaults(${target})
  set_property(GLOBAL APPEND PROPERTY DDP_LIBRARIES ${target})
endfunction()

# ddp_add_executable(train SOURCES a.cpp … LINK …)
function(ddp_add_executable target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LINK})
  ddp_target_defaults(${target})
endfunction()
