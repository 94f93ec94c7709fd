# SPDX-License-Identifier: MIT
#
# cmake -DBUILD_DIR=… -DWORK_DIR=… -DGENERATOR=… -P run.cmake
# Installs the build, then builds and runs a project with a fmt and a spdlog of its own.

include(${CMAKE_CURRENT_LIST_DIR}/../run_command.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
foreach(ddp_first ON OFF)
  set(build ${WORK_DIR}/build_${ddp_first})
  run(${CMAKE_COMMAND} -G "${GENERATOR}" -S ${CMAKE_CURRENT_LIST_DIR} -B ${build}
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix -DDDP_FIRST=${ddp_first})
  run(${CMAKE_COMMAND} --build ${build})
  run(${build}/trainer)
  if(NOT output STREQUAL "[ddp] warning: from libddp, hash e3b0c442\n")
    message(FATAL_ERROR "unexpected output:\n${output}")
  endif()
endforeach()

# A machine that has not the fmt of the build.
file(GLOB_RECURSE config ${WORK_DIR}/prefix/ddpConfig.cmake)
file(READ ${config} text)
if(text MATCHES "set\\(_ddp_fmt \"/[^\"]+")
  string(REPLACE "${CMAKE_MATCH_0}" "${CMAKE_MATCH_0}.absent" text "${text}")
  file(WRITE ${config} "${text}")
  execute_process(COMMAND ${CMAKE_COMMAND} ${WORK_DIR}/build_ON
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(result EQUAL 0 OR NOT output MATCHES "libddp was built with [^ ]*[.]absent, which this machine does")
    message(FATAL_ERROR "without fmt: ${result}\n${output}")
  endif()
endif()

# The program's own spdlog may be of another version, and its symbols do not say so.
file(GLOB_RECURSE library ${WORK_DIR}/prefix/libddp_base.a)
find_program(NM nm REQUIRED)
run(${NM} ${library})
if(output MATCHES "[^\n]*[A-Z]6spdlog[^\n]*")
  message(FATAL_ERROR "libddp_base.a has symbols of spdlog: ${CMAKE_MATCH_0}")
endif()
