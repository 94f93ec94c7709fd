# SPDX-License-Identifier: MIT
#
# cmake "-DPROGRAMS=a;b" -DEXPECTED=FILE -P count_cases.cmake
# Fails unless the test cases of PROGRAMS that run on one GPU are as many as FILE says.

set(count 0)
foreach(program IN LISTS PROGRAMS)
  # Its status is how many it listed.
  execute_process(COMMAND ${program} --list-test-names-only "~[multi_gpu]" OUTPUT_VARIABLE names)
  string(REGEX MATCHALL "[^\n]+" names "${names}")
  list(LENGTH names length)
  math(EXPR count "${count} + ${length}")
endforeach()
file(READ ${EXPECTED} expected)
string(STRIP ${expected} expected)
if(NOT count EQUAL expected)
  message(FATAL_ERROR "${count} test cases run on one GPU, and ${EXPECTED} says ${expected}")
endif()
message(STATUS "${count} test cases run on one GPU")
