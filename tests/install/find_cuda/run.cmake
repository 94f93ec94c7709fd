# SPDX-License-Identifier: MIT
#
# cmake -DDDP_SOURCE_DIR=… -DWORK_DIR=… -DGENERATOR=… [-DNVCC=…] -P run.cmake
# Configures with CUDA toolkits and NCCLs that are too old, or do not work, or are absent, and for
# GPUs that the toolkit does not know. Their files are made here.

include(${CMAKE_CURRENT_LIST_DIR}/../run_command.cmake)

file(REMOVE_RECURSE ${WORK_DIR})

# A toolkit in WORK_DIR/name, whose nvcc tells its version and does nothing else.
function(make_toolkit name version)
  set(toolkit ${WORK_DIR}/${name})
  file(WRITE ${toolkit}/bin/nvcc "#!/bin/sh
echo 'nvcc: NVIDIA (R) Cuda compiler driver'
echo 'Cuda compilation tools, release ${version}, V${version}.1'
[ \"$1\" = --version ] || { echo 'unsupported GNU version!' >&2; exit 1; }
")
  file(CHMOD ${toolkit}/bin/nvcc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  file(WRITE ${toolkit}/include/cuda_runtime.h "")
  file(WRITE ${toolkit}/include/cublas_v2.h "")
  file(WRITE ${toolkit}/lib64/libcudart.so "")
endfunction()

function(make_nccl name major minor)
  file(WRITE ${WORK_DIR}/${name}/include/nccl.h
    "#define NCCL_MAJOR ${major}\n#define NCCL_MINOR ${minor}\n#define NCCL_PATCH 3\n")
  file(WRITE ${WORK_DIR}/${name}/lib/libnccl.so.2 "")
endfunction()

# Configures in WORK_DIR/build, which keeps what earlier calls found, and expects `found`.
function(expect found)
  run(${CMAKE_COMMAND} -E env --unset=CUDACXX --unset=CUDAToolkit_ROOT --unset=NCCL_ROOT
    ${CMAKE_COMMAND} -G "${GENERATOR}" -S ${CMAKE_CURRENT_FUNCTION_LIST_DIR} -B ${WORK_DIR}/build
    -DDDP_SOURCE_DIR=${DDP_SOURCE_DIR} ${ARGN})
  if(NOT output MATCHES "-- CUDA: ${found}\n")
    message(FATAL_ERROR "with ${ARGN} expected: ${found}\n${output}")
  endif()
endfunction()

expect("FALSE: DDP_CUDA=off" -DDDP_CUDA=off)

expect("FALSE: no CUDA toolkit was found[^\n]*" -DDDP_CUDA=auto
  -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=TRUE)

make_toolkit(old 11.8)
expect("FALSE: the CUDA toolkit in [^\n]*/old/bin is 11.8[^\n]* 12.0 or later[^\n]*"
  -UCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit -DCUDAToolkit_ROOT=${WORK_DIR}/old)

# In the same build folder: what helps must not need a new one.
make_toolkit(unable 12.4)
expect("FALSE: [^\n]*/unable/bin/nvcc cannot compile: [^\n]*CMAKE_CUDA_HOST_COMPILER=[^\n]*"
  -DCUDAToolkit_ROOT=${WORK_DIR}/unable)

# The rest needs an nvcc that works; any one does, since nothing is compiled but its own trial.
if(NOT NVCC)
  return()
endif()
get_filename_component(bin ${NVCC} DIRECTORY)
get_filename_component(toolkit ${bin} DIRECTORY)
expect("FALSE: [^\n]* cannot compile: [^\n]*CMAKE_CUDA_HOST_COMPILER=[^\n]*"
  -DCUDAToolkit_ROOT=${toolkit} -DCMAKE_CUDA_HOST_COMPILER=${WORK_DIR}/no_compiler)
make_nccl(old_nccl 2 18)
expect("FALSE: [^\n]*/old_nccl/include/nccl.h is of NCCL 2.18[^\n]* 2.19 or later[^\n]*"
  -UCMAKE_CUDA_HOST_COMPILER -DNCCL_ROOT=${WORK_DIR}/old_nccl)
make_nccl(new_nccl 2 19)
expect("TRUE: " -DNCCL_ROOT=${WORK_DIR}/new_nccl)
foreach(unknown 20 999)
  expect("FALSE: [^\n]* does not know GPUs of architecture ${unknown}: [^\n]*_ROOT=[^\n]*"
    -DDDP_CUDA_ARCHITECTURES=${unknown}-real)
endforeach()
expect("TRUE: " -DDDP_CUDA_ARCHITECTURES=90-virtual)
