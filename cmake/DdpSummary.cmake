# SPDX-License-Identifier: MIT
#
# Prints, at the end of configure, what was found and what is switched off without it. In a
# subproject only what makes it slow.

if(NOT PROJECT_IS_TOP_LEVEL)
  if(NOT DDP_HAVE_CUDA)
    message(STATUS "libddp: no CUDA, so everything runs on the CPU: ${DDP_NO_CUDA}")
  endif()
  if(NOT DDP_HAVE_OPENBLAS)
    message(STATUS "libddp: no OpenBLAS, so CPU matrix products are many times slower")
  endif()
  if(NOT DDP_HAVE_ONEDNN AND DDP_SUITS_ONEDNN)
    message(STATUS "libddp: no oneDNN, so CPU convolutions of many channels are slower")
  endif()
  return()
endif()

macro(ddp_summary_line what present with without)
  if(${present})
    message(STATUS "  ${what} yes  ${with}")
  else()
    message(STATUS "  ${what} no   ${without}")
  endif()
endmacro()

set(build_types ${CMAKE_BUILD_TYPE})
if(CMAKE_CONFIGURATION_TYPES)
  list(JOIN CMAKE_CONFIGURATION_TYPES " or " build_types)
endif()
message(STATUS "ddp ${PROJECT_VERSION}, ${build_types}:")
ddp_summary_line("CUDA + NCCL" DDP_HAVE_CUDA
  "${CUDAToolkit_VERSION}, architectures ${DDP_CUDA_ARCHITECTURES}"
  "everything runs on the CPU: ${DDP_NO_CUDA}")
ddp_summary_line("zlib       " DDP_HAVE_ZLIB
  "datasets are read gzipped, too" "datasets are read unpacked")
ddp_summary_line("image files" DDP_HAVE_IMAGES
  "JPEG and PNG" "no datasets of image files (no libjpeg or libpng, or DDP_IMAGES=OFF)")
ddp_summary_line("OpenBLAS   " DDP_HAVE_OPENBLAS
  "CPU matrix products" "CPU matrix products by a plain loop, many times slower")
if(DDP_SUITS_ONEDNN)
  set(no_onednn "slower for many channels (no oneDNN 2 or 3, or DDP_ONEDNN=OFF)")
else()
  set(no_onednn "faster on this processor (unless DDP_ONEDNN=ON)")
endif()
ddp_summary_line("oneDNN     " DDP_HAVE_ONEDNN
  "CPU convolutions by version ${DDP_ONEDNN_MAJOR}"
  "CPU convolutions by loops of our own, ${no_onednn}")
if(TARGET train_lenet)
  set(DDP_HAVE_LIBTORCH TRUE)
endif()
ddp_summary_line("LibTorch   " DDP_HAVE_LIBTORCH
  "examples/libtorch" "examples/libtorch is left out; ddp_torch.h is installed all the same")
ddp_summary_line("tests      " DDP_BUILD_TESTS "" "")
ddp_summary_line("examples   " DDP_BUILD_EXAMPLES "" "")
ddp_summary_line("benchmarks " DDP_BUILD_BENCH "" "")
if(DDP_BUILD_BENCH)
  ddp_summary_line("Open MPI   " DDP_HAVE_MPI
    "a rival in bench_all_reduce --compare" "no rival in bench_all_reduce (no mpicxx with mpi.h)")
endif()
