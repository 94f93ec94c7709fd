# SPDX-License-Identifier: MIT
#
# cmake -DBINARY=… -DFORBIDDEN=regex -P check_dependencies.cmake
# Fails if the binary's loader would open a library that matches: start-up is part of the product.

execute_process(COMMAND ldd ${BINARY} OUTPUT_VARIABLE libraries RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "ldd ${BINARY} failed")
endif()
if(libraries MATCHES "(${FORBIDDEN})[^\n]*")
  message(FATAL_ERROR "${BINARY} loads what it must not: ${CMAKE_MATCH_0}")
endif()
message(STATUS "${BINARY} loads none of ${FORBIDDEN}")
