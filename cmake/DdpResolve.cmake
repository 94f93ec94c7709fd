# SPDX-License-Identifier: MIT
#
# The options AUTO, ON and OFF for a dependency.

# ddp_wants(OPTION out): sets `out` to AUTO, TRUE or FALSE; another value of the option is an error.
function(ddp_wants option out)
  string(TOUPPER "${${option}}" wanted)
  if(wanted STREQUAL "AUTO")
    set(${out} AUTO PARENT_SCOPE)
  elseif(wanted MATCHES "^(ON|TRUE|YES|1)$")
    set(${out} TRUE PARENT_SCOPE)
  elseif(wanted MATCHES "^(OFF|FALSE|NO|0)$")
    set(${out} FALSE PARENT_SCOPE)
  else()
    message(FATAL_ERROR "${option}=${${option}}, expected AUTO, ON or OFF")
  endif()
endfunction()

# ddp_resolve(OPTION found out problem): combines AUTO/ON/OFF with whether the dependency was found;
# `problem` says what is missing and what helps.
function(ddp_resolve option found out problem)
  ddp_wants(${option} wanted)
  if(wanted STREQUAL "TRUE" AND NOT found)
    message(FATAL_ERROR "${option}=${${option}}, but ${problem}")
  elseif(wanted)
    set(${out} ${found} PARENT_SCOPE)
  else()
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()
