# SPDX-License-Identifier: MIT
#
# Finds the dependencies on this machine. Nothing is downloaded. docs/dependencies.md gives a reason
# for each.

find_package(Threads REQUIRED)
if(DDP_VENDORED_HEADERS)
  include(DdpVendoredHeaders)
else()
  # A project that contains this one may have made them itself.
  foreach(package spdlog fmt cxxopts nlohmann_json)
    if(NOT TARGET ${package}::${package})
      find_package(${package} REQUIRED)
    endif()
  endforeach()
  if(DDP_BUILD_TESTS)
    find_package(Catch2 REQUIRED)
    if(NOT Catch2_VERSION MATCHES "^(2\\.13|3)\\.")
      message(FATAL_ERROR "The tests need Catch2 2.13 or 3, and this is ${Catch2_VERSION}")
    endif()
  endif()
endif()

# What a program links for fmt that uses the installed libraries: the file of an imported library, by
# its soname, which updates keep; nothing, if only headers were used; or the target of a project
# around this one, which installs it itself.
get_target_property(is_imported fmt::fmt IMPORTED)
get_target_property(type fmt::fmt TYPE)
set(DDP_INSTALLED_FMT fmt::fmt)
if(is_imported AND type STREQUAL "INTERFACE_LIBRARY")
  set(DDP_INSTALLED_FMT "")
elseif(is_imported)
  get_target_property(DDP_INSTALLED_FMT fmt::fmt LOCATION)
  get_target_property(configurations fmt::fmt IMPORTED_CONFIGURATIONS)
  get_filename_component(folder ${DDP_INSTALLED_FMT} DIRECTORY)
  foreach(configuration IN LISTS configurations)
    get_target_property(soname fmt::fmt IMPORTED_SONAME_${configuration})
    if(soname AND EXISTS ${folder}/${soname})
      set(DDP_INSTALLED_FMT ${folder}/${soname})
      break()
    endif()
  endforeach()
endif()

include(DdpResolve)
include(DdpCuda)
if(DDP_HAVE_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES ${DDP_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  # An nvcc that does not know the C++ compiler may take an older one (Debian 13's takes gcc 13). The
  # linker would look into the older one's folder first, whose libstdc++ lacks what our objects and
  # the system's libraries call.
  list(FILTER CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES EXCLUDE REGEX "/gcc/[^/]+/[0-9.]+$")
  # cuDNN is optional: without it, CUDA convolutions use columns and cuBLAS.
  ddp_find_nvidia(CUDNN cudnn.h libcudnn.so.9)
  find_path(DDP_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${DDP_NVIDIA_PREFIXES} PATH_SUFFIXES include)
endif()

set(found FALSE)
ddp_wants(DDP_ZLIB wanted)
if(wanted)
  find_package(ZLIB QUIET)
  if(ZLIB_FOUND)
    set(found TRUE)
  endif()
endif()
ddp_resolve(DDP_ZLIB ${found} DDP_HAVE_ZLIB "it was not found: install zlib1g-dev")

# Without find_package: OpenBLASConfig.cmake of Debian 13 names a folder that does not exist.
set(found FALSE)
ddp_wants(DDP_OPENBLAS wanted)
if(wanted)
  find_library(DDP_OPENBLAS_LIBRARY openblas
    HINTS ${OpenBLAS_ROOT} ENV OpenBLAS_ROOT PATH_SUFFIXES lib)
  find_path(DDP_OPENBLAS_INCLUDE_DIR cblas.h
    HINTS ${OpenBLAS_ROOT} ENV OpenBLAS_ROOT PATH_SUFFIXES include openblas include/openblas)
  if(DDP_OPENBLAS_LIBRARY AND DDP_OPENBLAS_INCLUDE_DIR)
    set(found TRUE)
  endif()
endif()
ddp_resolve(DDP_OPENBLAS ${found} DDP_HAVE_OPENBLAS
  "it was not found: install libopenblas-dev, or name its folder by -DOpenBLAS_ROOT=DIR")

# Only the header is used, and the file name by which the library is loaded: libdnnl.so.3, but in
# Debian 13 libdnnl.so.3.6. The header is that of the library: LibTorch has headers of a version of
# its own, without the library.
# It is fast on x86. As distributions build it for ARM, products and most convolutions run its
# reference code, which has several times as many instructions as OpenBLAS and our loops; so there it
# must be asked for.
set(found FALSE)
ddp_wants(DDP_ONEDNN wanted)
set(DDP_SUITS_ONEDNN FALSE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(DDP_SUITS_ONEDNN TRUE)
elseif(wanted STREQUAL "AUTO")
  set(wanted FALSE)
endif()
if(wanted)
  find_library(DDP_ONEDNN_LIBRARY dnnl
    HINTS ${ONEDNN_ROOT} ENV ONEDNN_ROOT PATH_SUFFIXES lib)
  if(DDP_ONEDNN_LIBRARY)
    get_filename_component(folder ${DDP_ONEDNN_LIBRARY} DIRECTORY)
    find_path(DDP_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h
      PATHS ${folder}/../include ${folder}/../../include NO_DEFAULT_PATH)
  endif()
  if(DDP_ONEDNN_INCLUDE_DIR)
    file(STRINGS ${DDP_ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h line
      REGEX "DNNL_VERSION_MAJOR +[0-9]+")
    string(REGEX MATCH "[0-9]+" DDP_ONEDNN_MAJOR "${line}")
    if(DDP_ONEDNN_MAJOR MATCHES "^[23]$")
      set(found TRUE)
    endif()
    set(DDP_ONEDNN_SONAME libdnnl.so.${DDP_ONEDNN_MAJOR})
    if(CMAKE_OBJDUMP)
      execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${DDP_ONEDNN_LIBRARY}
        OUTPUT_VARIABLE headers ERROR_QUIET)
      if(headers MATCHES "SONAME +(libdnnl\\.so[.0-9]*)")
        set(DDP_ONEDNN_SONAME ${CMAKE_MATCH_1})
      endif()
    endif()
  endif()
endif()
ddp_resolve(DDP_ONEDNN ${found} DDP_HAVE_ONEDNN
  "it was not found: install libdnnl-dev (version 2 or 3), or name its folder by \
-DONEDNN_ROOT=DIR")

set(found FALSE)
ddp_wants(DDP_IMAGES wanted)
if(wanted)
  find_package(JPEG QUIET)
  find_package(PNG QUIET)
  if(JPEG_FOUND AND PNG_FOUND)
    set(found TRUE)
  endif()
endif()
ddp_resolve(DDP_IMAGES ${found} DDP_HAVE_IMAGES
  "they were not found: install libjpeg-dev and libpng-dev")

if(DDP_BUILD_BENCH)
  # bench_all_reduce compares with MPI; nothing else needs it. Debian may have mpicxx without mpi.h
  # (openmpi-bin without libopenmpi-dev), for which find_package(MPI) fails.
  set(found FALSE)
  ddp_wants(DDP_MPI wanted)
  if(wanted)
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
  ddp_resolve(DDP_MPI ${found} DDP_HAVE_MPI "it was not found: install libopenmpi-dev")
endif()
