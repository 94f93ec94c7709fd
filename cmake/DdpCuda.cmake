# SPDX-License-Identifier: MIT
#
# Finds CUDA, cuBLAS and NCCL. They belong together: without one of them a build could neither
# multiply nor reduce. Sets DDP_HAVE_CUDA; if it is false, DDP_NO_CUDA says why and what helps.

include(CheckLanguage)
include(DdpNvidia)
include(DdpResolve)

set(DDP_OLDEST_CUDA 12.0)  # since then, nvcc compiles C++20
set(DDP_OLDEST_NCCL 2.19)  # since then, NCCL has ncclCommRegister and ncclMemAlloc

# Like check_language(CUDA), but finds nvcc where find_package(CUDAToolkit) did, since installers
# leave PATH alone, and searches again where CMake remembers that there was no compiler.
macro(ddp_find_nvcc)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
    if(NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    # check_language() knows only the environment's, and its result would hide the option's.
    if(CMAKE_CUDA_HOST_COMPILER)
      set(ENV{CUDAHOSTCXX} ${CMAKE_CUDA_HOST_COMPILER})
    endif()
  endif()
  check_language(CUDA)
endmacro()

# Sets `out` to the numbers in DDP_CUDA_ARCHITECTURES that nvcc does not know: a toolkit knows
# neither much older nor newer GPUs. It lists those that it knows as "compute_90".
function(ddp_unknown_architectures out)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
    OUTPUT_VARIABLE known ERROR_QUIET RESULT_VARIABLE status)
  set(unknown "")
  foreach(architecture IN LISTS DDP_CUDA_ARCHITECTURES)
    string(REGEX MATCH "^[0-9]+" number "${architecture}")
    if(number AND status EQUAL 0 AND NOT known MATCHES "compute_${number}[^0-9]")
      list(APPEND unknown ${number})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES unknown)
  list(JOIN unknown ", " unknown)
  set(${out} "${unknown}" PARENT_SCOPE)
endfunction()

# Sets `out` to "2.28".
function(ddp_nccl_version header out)
  file(STRINGS ${header} lines REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." version)
  set(${out} ${version} PARENT_SCOPE)
endfunction()

# Sets DDP_NO_CUDA, to nothing if all parts are there. A macro, so that what it finds is known to
# the caller, too.
macro(ddp_find_cuda)
  set(DDP_NO_CUDA "")
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(DDP_NO_CUDA "no CUDA toolkit was found; -DCUDAToolkit_ROOT=DIR names its folder")
  elseif(CUDAToolkit_VERSION VERSION_LESS DDP_OLDEST_CUDA)
    set(DDP_NO_CUDA "the CUDA toolkit in ${CUDAToolkit_BIN_DIR} is ${CUDAToolkit_VERSION}, and \
${DDP_OLDEST_CUDA} or later is needed; -DCUDAToolkit_ROOT=DIR names another")
  else()
    ddp_find_nvcc()
    ddp_python_nvidia_prefixes(DDP_NVIDIA_PREFIXES)
    ddp_find_nvidia(NCCL nccl.h libnccl.so.2)
    ddp_find_nvidia(CUBLAS cublas_v2.h libcublas.so.${CUDAToolkit_VERSION_MAJOR})
    set(unknown "")
    if(CMAKE_CUDA_COMPILER)
      ddp_unknown_architectures(unknown)
    endif()
    if(NOT CMAKE_CUDA_COMPILER)
      set(DDP_NO_CUDA "$ENV{CUDACXX} cannot compile: the logs in CMakeFiles say why. If it does not \
know this compiler, -DCMAKE_CUDA_HOST_COMPILER=g++-12 names another")
    elseif(NOT unknown STREQUAL "")
      set(DDP_NO_CUDA "${CMAKE_CUDA_COMPILER} is of CUDA ${CUDAToolkit_VERSION}, which does not know \
GPUs of architecture ${unknown}: -DCUDAToolkit_ROOT=DIR names a toolkit that does, or \
-DDDP_CUDA_ARCHITECTURES=LIST leaves them out")
    elseif(NOT DDP_CUBLAS_INCLUDE_DIR)
      set(DDP_NO_CUDA "no cublas_v2.h was found; -DCUBLAS_ROOT=DIR names cuBLAS's folder")
    elseif(NOT DDP_NCCL_INCLUDE_DIR)
      set(DDP_NO_CUDA "no nccl.h was found; install libnccl-dev (NVIDIA's or Debian's), or the Python \
package nvidia-nccl-cu${CUDAToolkit_VERSION_MAJOR}, or name NCCL's folder by -DNCCL_ROOT=DIR")
    else()
      ddp_nccl_version(${DDP_NCCL_INCLUDE_DIR}/nccl.h nccl)
      if(nccl VERSION_LESS DDP_OLDEST_NCCL)
        set(DDP_NO_CUDA "${DDP_NCCL_INCLUDE_DIR}/nccl.h is of NCCL ${nccl}, and \
${DDP_OLDEST_NCCL} or later is needed; -DNCCL_ROOT=DIR names another")
      endif()
    endif()
  endif()
endmacro()

ddp_wants(DDP_CUDA wanted)
if(wanted)
  ddp_find_cuda()
else()
  set(DDP_NO_CUDA "DDP_CUDA=${DDP_CUDA}")
endif()
# What was not good enough must not be remembered, so that a user who mends it can configure again.
if(NOT DDP_NO_CUDA STREQUAL "")
  foreach(entry CUDAToolkit_NVCC_EXECUTABLE CUDAToolkit_BIN_DIR CUDAToolkit_INCLUDE_DIR CUDA_CUDART
      DDP_NCCL_LIBRARY DDP_NCCL_INCLUDE_DIR DDP_CUBLAS_LIBRARY DDP_CUBLAS_INCLUDE_DIR)
    unset(${entry} CACHE)
  endforeach()
endif()
set(found FALSE)
if(DDP_NO_CUDA STREQUAL "")
  set(found TRUE)
endif()
ddp_resolve(DDP_CUDA ${found} DDP_HAVE_CUDA "${DDP_NO_CUDA}")
