# SPDX-License-Identifier: MIT
#
# Finds what the machine has. Nothing is downloaded. docs/dependencies.md gives a reason for each.

find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(cxxopts REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenBLAS QUIET)

# ddp_resolve(VARIABLE found): turns AUTO/ON/OFF and what was found into a result.
function(ddp_resolve option found out)
  string(TOUPPER "${${option}}" wanted)
  if(wanted STREQUAL "AUTO")
    set(${out} ${found} PARENT_SCOPE)
  elseif(wanted AND NOT found)
    message(FATAL_ERROR "${option}=ON, but it was not found")
  elseif(wanted)
    set(${out} TRUE PARENT_SCOPE)
  else()
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

# CUDA and NCCL belong together: a CUDA build without NCCL could not reduce anything.
set(found FALSE)
if(NOT DDP_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  find_path(DDP_NCCL_INCLUDE_DIR nccl.h
    HINTS ${NCCL_ROOT}/include ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND DDP_NCCL_INCLUDE_DIR)
    set(found TRUE)
  endif()
endif()
ddp_resolve(DDP_CUDA ${found} DDP_HAVE_CUDA)
if(DDP_HAVE_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES ${DDP_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  # Optional even so: without it, convolutions on CUDA are columns and cuBLAS.
  find_path(DDP_CUDNN_INCLUDE_DIR cudnn.h
    HINTS ${CUDNN_ROOT}/include ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
endif()

set(found FALSE)
if(NOT DDP_GLOO STREQUAL "OFF")
  find_package(Gloo QUIET CONFIG)
  if(TARGET gloo)
    set(found TRUE)
  endif()
endif()
ddp_resolve(DDP_GLOO ${found} DDP_HAVE_GLOO)

# Only its header is used: kernels open it. The C interface of version 3 is another one.
set(found FALSE)
if(NOT DDP_ONEDNN STREQUAL "OFF")
  find_path(DDP_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h
    HINTS ${ONEDNN_ROOT}/include ENV ONEDNN_ROOT PATH_SUFFIXES include)
  if(DDP_ONEDNN_INCLUDE_DIR)
    file(STRINGS ${DDP_ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h DDP_ONEDNN_VERSION
      REGEX "DNNL_VERSION_MAJOR +2")
    if(DDP_ONEDNN_VERSION)
      set(found TRUE)
    endif()
  endif()
endif()
ddp_resolve(DDP_ONEDNN ${found} DDP_HAVE_ONEDNN)

set(found FALSE)
if(NOT DDP_IMAGES STREQUAL "OFF")
  find_package(JPEG QUIET)
  find_package(PNG QUIET)
  if(JPEG_FOUND AND PNG_FOUND)
    set(found TRUE)
  endif()
endif()
ddp_resolve(DDP_IMAGES ${found} DDP_HAVE_IMAGES)

if(DDP_BUILD_TESTS)
  find_package(Catch2 2 REQUIRED)
endif()
if(DDP_BUILD_BENCH)
  find_package(benchmark QUIET)
  # A rival of bench_all_reduce; nothing of ours needs it. Debian has mpicxx without mpi.h
  # (openmpi-bin without libopenmpi-dev), over which find_package(MPI) stumbles.
  set(found FALSE)
  if(NOT DDP_MPI STREQUAL "OFF")
    find_program(DDP_MPICXX mpicxx)
    if(DDP_MPICXX)
      execute_process(COMMAND ${DDP_MPICXX} --showme:incdirs
        OUTPUT_VARIABLE directories OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      separate_arguments(directories)
      find_path(DDP_MPI_INCLUDE_DIR mpi.h HINTS ${directories})
    endif()
    if(DDP_MPI_INCLUDE_DIR)
      set(MPI_CXX_SKIP_MPICXX TRUE)
      find_package(MPI QUIET COMPONENTS CXX)
      if(MPI_CXX_FOUND)
        set(found TRUE)
      endif()
    endif()
  endif()
  ddp_resolve(DDP_MPI ${found} DDP_HAVE_MPI)
endif()
