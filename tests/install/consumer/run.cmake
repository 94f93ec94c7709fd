# SPDX-License-Identifier: MIT
#
# cmake -DBUILD_DIR=… -DWORK_DIR=… -DGENERATOR=… [-DNVCC=…] -P run.cmake
# Installs the build, then configures, builds and runs the consumer on 2 ranks.

include(${CMAKE_CURRENT_LIST_DIR}/../run_command.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
if(NVCC)
  set(with_cuda -DWITH_CUDA=ON -DCMAKE_CUDA_COMPILER=${NVCC} -DCMAKE_CUDA_ARCHITECTURES=80-virtual)
endif()
run(${CMAKE_COMMAND} -G "${GENERATOR}" -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
  -DCMAKE_BUILD_TYPE=Release ${with_cuda})
file(GLOB installed ${WORK_DIR}/prefix/share/doc/ddp/*)
if(NOT installed STREQUAL "${WORK_DIR}/prefix/share/doc/ddp/LICENSE")
  message(FATAL_ERROR "installed as documentation: '${installed}'")
endif()
# A component that there is not.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/no_component
  -G "${GENERATOR}" -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix -DMORE_COMPONENTS=autograd
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(result EQUAL 0 OR NOT output MATCHES "ddp has no component autograd, only: base, cuda, .* nn_parallel")
  message(FATAL_ERROR "the component autograd: ${result}\n${output}")
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/prefix/bin/ddp-launch --nproc_per_node=2 ${WORK_DIR}/build/consumer)
if(NOT output MATCHES "consumer: sum 3, 6 parameters, 10 steps")
  message(FATAL_ERROR "unexpected output:\n${output}")
endif()
message(STATUS "${output}")
run(${CMAKE_COMMAND} -E env CUDA_VISIBLE_DEVICES=
  ${WORK_DIR}/prefix/bin/ddp-launch --nproc_per_node=2 ${WORK_DIR}/build/trainer)
if(NOT output MATCHES "2 ranks on cpu: the sum is 3")
  message(FATAL_ERROR "unexpected output:\n${output}")
endif()
