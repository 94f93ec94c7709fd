# SPDX-License-Identifier: MIT
#
# cmake -DDDP_SOURCE_DIR=… -DWORK_DIR=… -DGENERATOR=… -P run.cmake
# Configures a project that has libddp as a subproject; builds, installs and runs its program.

include(${CMAKE_CURRENT_LIST_DIR}/../run_command.cmake)

file(REMOVE_RECURSE ${WORK_DIR})

# Configures in WORK_DIR/build, which keeps what earlier calls found. `expected`: whether that warns
# of a libddp without optimisation.
function(expect_warning expected)
  run(${CMAKE_COMMAND} -G "${GENERATOR}" -S ${CMAKE_CURRENT_FUNCTION_LIST_DIR} -B ${WORK_DIR}/build
    -DDDP_SOURCE_DIR=${DDP_SOURCE_DIR} -DDDP_CUDA=OFF ${ARGN})
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  set(warns FALSE)
  if(output MATCHES "without optimisation.* pass -DCMAKE_BUILD_TYPE=Release")
    set(warns TRUE)
  endif()
  if(NOT warns STREQUAL expected)
    message(FATAL_ERROR "with ${ARGN} expected a warning: ${expected}\n${output}")
  endif()
endfunction()

expect_warning(TRUE -DCMAKE_BUILD_TYPE= -DCMAKE_CXX_FLAGS=)
expect_warning(FALSE -DCMAKE_BUILD_TYPE= -DCMAKE_CXX_FLAGS=-O2)
expect_warning(FALSE -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --target trainer)
run(${CMAKE_COMMAND} --install ${WORK_DIR}/build --prefix ${WORK_DIR}/prefix)
file(GLOB_RECURSE installed RELATIVE ${WORK_DIR}/prefix ${WORK_DIR}/prefix/*)
if(NOT installed STREQUAL "bin/trainer")
  message(FATAL_ERROR "installed besides the project's own: ${installed}")
endif()
run(${WORK_DIR}/prefix/bin/trainer)
if(NOT output STREQUAL "3 steps\n")
  message(FATAL_ERROR "unexpected output:\n${output}")
endif()
