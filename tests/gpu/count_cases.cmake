# SPDX-License-Identifier: MIT
#
# cmake "-DPROGRAMS=a;b" -DEXPECTED=FILE -P count_cases.cmake
# Fails unless the test cases of PROGRAMS that run on one GPU are as many as FILE says.

set(count 0)
foreach(program IN LISTS PROGRAMS)
  # Its status is, with Catch2 2, how many it listed.
  execute_process(COMMAND ${program} --list-tests "~[multi_gpu]" OUTPUT_VARIABLE list)
  if(NOT list MATCHES "([0-9]+) matching test case")
    message(FATAL_ERROR "${program} does not say how many test cases it has: ${list}")
  endif()
  math(EXPR count "${count} + ${CMAKE_MATCH_1}")
endforeach()
file(READ ${EXPECTED} expected)
string(STRIP ${expected} expected)
if(NOT count EQUAL expected)
  message(FATAL_ERROR "${count} test cases run on one GPU, and ${EXPECTED} says ${expected}")
endif()
message(STATUS "${count} test cases run on one GPU")
