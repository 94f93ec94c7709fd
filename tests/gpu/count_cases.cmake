# SPDX-License-Identifier: MIT
#
# cmake "-DPROGRAMS=tests;a;ranks;b" -DEXPECTED=FILE -P count_cases.cmake
# Fails unless FILE has this line for each program: its part of scripts/gpu_check.sh, its name, and
# how many of its test cases run on one GPU.

set(counts "")
while(PROGRAMS)
  list(POP_FRONT PROGRAMS part program)
  # Its status is, with Catch2 2, how many it listed.
  execute_process(COMMAND ${program} --list-tests "~[multi_gpu]" OUTPUT_VARIABLE list)
  if(NOT list MATCHES "([0-9]+) matching test case")
    message(FATAL_ERROR "${program} does not say how many test cases it has: ${list}")
  endif()
  get_filename_component(name ${program} NAME)
  string(APPEND counts "${part} ${name} ${CMAKE_MATCH_1}\n")
endwhile()
file(READ ${EXPECTED} expected)
if(NOT counts STREQUAL expected)
  message(FATAL_ERROR "${EXPECTED} should be:\n${counts}")
endif()
message(STATUS "${counts}")
