# SPDX-License-Identifier: BSD-3-Clause
# cmake -DCOMMAND=... -DVERSION=... -DIN=... -DOUT=... -P manpage.cmake: put the settings, as the command prints them, and
# the version into the manual page.
execute_process(COMMAND ${COMMAND} info --settings --man OUTPUT_VARIABLE settings RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${COMMAND} info --settings --man: ${failed}")
endif()
set(PROJECT_VERSION ${VERSION})
configure_file(${IN} ${OUT} @ONLY)
