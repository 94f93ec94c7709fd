# SPDX-License-Identifier: MIT
#
# cmake -DBUILD_DIR=… -DDDP_SOURCE_DIR=… -DWORK_DIR=… -DGENERATOR=… -P run.cmake
# Installs the build, then configures a project that gets libddp twice.

include(${CMAKE_CURRENT_LIST_DIR}/../run_command.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
set(configure ${CMAKE_COMMAND} -G "${GENERATOR}" -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/build
  -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix -DDDP_SOURCE_DIR=${DDP_SOURCE_DIR} -DDDP_CUDA=OFF
  -DCMAKE_BUILD_TYPE=Release)

# expect_error(regex ARG…): configuring with the arguments ends with this error, and no other.
function(expect_error regex)
  execute_process(COMMAND ${configure} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  string(REGEX MATCHALL "CMake Error" errors "${output}")
  list(LENGTH errors number)
  if(result EQUAL 0 OR NOT number EQUAL 1 OR NOT output MATCHES "${regex}")
    message(FATAL_ERROR "with ${ARGN} expected one error, ${regex}:\n${output}")
  endif()
endfunction()

run(${configure})
expect_error("ddp has no component autograd, only: base, cuda, .* nn_parallel"
  -DMORE_COMPONENTS=autograd)
expect_error("find_package\\(ddp\\) in .* has made the targets of libddp already, so its sources in"
  -DMORE_COMPONENTS= -DPACKAGE_FIRST=ON)
