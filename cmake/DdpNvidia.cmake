# SPDX-License-Identifier: MIT
#
# Finds NVIDIA's libraries: in X_ROOT, in the toolkit, in the system, and last in a Python
# environment, whose packages (nvidia-nccl-cu13, nvidia-cudnn-cu13, …) have folders include and lib
# under site-packages/nvidia. Each library is loaded at first use, so the build needs only its
# header; our executables remember the folder of the library.

# The folders of the NVIDIA packages of the python3 in PATH.
function(ddp_python_nvidia_prefixes out)
  find_program(DDP_PYTHON3 python3)
  set(prefixes "")
  if(DDP_PYTHON3)
    execute_process(COMMAND ${DDP_PYTHON3} -c "import nvidia; print(';'.join(nvidia.__path__))"
      OUTPUT_VARIABLE folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(folder IN LISTS folders)
      file(GLOB found LIST_DIRECTORIES true ${folder}/*)
      list(APPEND prefixes ${found})
    endforeach()
  endif()
  set(${out} ${prefixes} PARENT_SCOPE)
endfunction()

# ddp_find_nvidia(NCCL nccl.h libnccl.so.2) sets DDP_NCCL_LIBRARY and DDP_NCCL_INCLUDE_DIR. It
# prefers the header in the library's own installation, because a library must not be older than its
# header. Macros, so that they set the caller's CMAKE_BUILD_RPATH.
macro(ddp_find_nvidia name header library)
  find_library(DDP_${name}_LIBRARY NAMES ${library}
    HINTS ${${name}_ROOT} ENV ${name}_ROOT ${CUDAToolkit_LIBRARY_DIR}
    PATHS ${DDP_NVIDIA_PREFIXES} PATH_SUFFIXES lib lib64)
  set(beside "")
  if(DDP_${name}_LIBRARY)
    get_filename_component(folder ${DDP_${name}_LIBRARY} DIRECTORY)
    ddp_search_at_run_time(${folder})
    set(beside ${folder}/..)
  endif()
  find_path(DDP_${name}_INCLUDE_DIR ${header}
    HINTS ${${name}_ROOT} ENV ${name}_ROOT ${beside} ${CUDAToolkit_INCLUDE_DIRS}
    PATHS ${DDP_NVIDIA_PREFIXES} PATH_SUFFIXES include)
endmacro()

macro(ddp_search_at_run_time folder)
  if(NOT "${folder}" IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND CMAKE_BUILD_RPATH ${folder})
    list(REMOVE_DUPLICATES CMAKE_BUILD_RPATH)
  endif()
endmacro()

# Adds the folder of a header that the toolkit lacks, for one source only and after the toolkit's
# folder, since the folder of a Python package has all CUDA headers.
function(ddp_include_behind_toolkit source folder)
  if(NOT folder IN_LIST CUDAToolkit_INCLUDE_DIRS AND
     NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-isystem;${folder}")
  endif()
endfunction()
