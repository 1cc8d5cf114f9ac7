# Sets Python3_EXECUTABLE to an interpreter that has NumPy, which the oracle and
# the fuzzer need: the system's own before whatever stands first on PATH.
if(NOT Python3_EXECUTABLE)
  find_program(EJK_PATH_PYTHON python3)
  foreach(candidate /usr/bin/python3 ${EJK_PATH_PYTHON})
    execute_process(COMMAND ${candidate} -c "import numpy"
      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
      set(Python3_EXECUTABLE ${candidate} CACHE FILEPATH "Python with NumPy, for the tests")
      break()
    endif()
  endforeach()
endif()
if(NOT Python3_EXECUTABLE)
  message(FATAL_ERROR "The tests need a python3 with NumPy: install python3-numpy, or set Python3_EXECUTABLE")
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
