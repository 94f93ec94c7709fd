# SPDX-License-Identifier: MIT
#
# ddp_add_build_id(TARGET) compiles a build_id() into TARGET: a hash over the names and contents of
# all sources and headers in its folder. Run with -P, this file is the script that writes the
# source.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(DDP_BUILD_ID_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  function(ddp_add_build_id target)
    # The compiled sources are listed by name elsewhere; this glob only detects changes.
    file(GLOB_RECURSE inputs CONFIGURE_DEPENDS
      ${CMAKE_CURRENT_SOURCE_DIR}/ddp/*.h ${CMAKE_CURRENT_SOURCE_DIR}/ddp/*.cpp
      ${CMAKE_CURRENT_SOURCE_DIR}/ddp/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/ddp/*.cuh)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/build_id.cpp)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_CURRENT_SOURCE_DIR} -DOUTPUT=${output}
              -P ${DDP_BUILD_ID_SCRIPT}
      DEPENDS ${inputs} ${DDP_BUILD_ID_SCRIPT}
      COMMENT "Hashing the sources of ${target}"
      VERBATIM)
    target_sources(${target} PRIVATE ${output})
  endfunction()
  return()
endif()

file(GLOB_RECURSE inputs RELATIVE ${ROOT} ${ROOT}/ddp/*.h ${ROOT}/ddp/*.cpp ${ROOT}/ddp/*.cu
  ${ROOT}/ddp/*.cuh)
list(SORT inputs)
set(hashes "")
foreach(input IN LISTS inputs)
  file(SHA256 ${ROOT}/${input} hash)
  string(APPEND hashes "${input} ${hash}\n")
endforeach()
string(SHA256 build_id "${hashes}")
string(SUBSTRING ${build_id} 0 12 build_id)
file(WRITE ${OUTPUT} "// Written by cmake/DdpBuildId.cmake
#include \"ddp/collectives/start/build_id.h\"

namespace ddp {

std::string_view build_id() { return \"${build_id}\"; }

}  // namespace ddp
")
