# Finds LLVM/MLIR 22 and sets what every compiler folder needs.
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "ejk needs LLVM/MLIR 22, but found ${LLVM_PACKAGE_VERSION}")
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} from ${MLIR_DIR}")
set(MLIR_LINK_MLIR_DYLIB ON)
set(LLVM_LINK_LLVM_DYLIB ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # an installed tool finds libMLIR too
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
separate_arguments(EJK_LLVM_DEFINITIONS UNIX_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${EJK_LLVM_DEFINITIONS})

# LLVM has no exceptions, and neither has compiler code.
function(ejk_set_compile_options target)
  target_compile_options(${target} PRIVATE -fno-exceptions -Wall -Wextra -Wno-unused-parameter
    $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>) # so that ccache can hit
endfunction()

include(cmake/EjkPrecompiledHeader.cmake)

# LLVM makes and frees many small objects: with mimalloc in the place of the C library's allocator a
# compilation takes a tenth less time. Programs that are installed then need its shared library.
option(EJK_MIMALLOC "Have the compiler's programs allocate with mimalloc, where it is installed" ON)
if(EJK_MIMALLOC AND NOT EJK_SANITIZE)
  find_package(mimalloc QUIET)
  if(TARGET mimalloc)
    message(STATUS "mimalloc ${mimalloc_VERSION} from ${mimalloc_DIR}")
  endif()
endif()

# Files of one library that include the same headers instantiate the same templates, and optimise the same inline
# functions. Eight at a time take half of the processor time; whoever then changes one compiles eight again.
option(EJK_UNITY_BUILD "Compile the compiler's libraries eight files at a time" OFF)

# A program of compiler code.
function(ejk_add_compiler_program name)
  add_executable(${name} ${ARGN})
  ejk_set_compile_options(${name})
  target_compile_options(${name} PRIVATE -fPIC) # as the precompiled header has it
  if(TARGET mimalloc)
    target_link_libraries(${name} PRIVATE mimalloc)
  endif()
  ejk_use_precompiled_header(${name})
endfunction()

# LLVM and MLIR as files, because the imported targets of their archives bring the shared libLLVM with them.
file(GLOB EJK_LLVM_ARCHIVES ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
list(FILTER EJK_LLVM_ARCHIVES EXCLUDE REGEX "Test|CAPI")
set(EJK_STATIC_LLVM ${EJK_LLVM_ARCHIVES} ZLIB::ZLIB ${EJK_ZSTD} ${CMAKE_DL_LIBS})

# Has LLVM and MLIR in a program, which then starts in 8 ms: relocating their shared libraries takes 50 ms more. Programs
# that seldom run link the shared ones, which takes no time and no disk.
function(ejk_link_llvm_statically name)
  set_target_properties(${name} PROPERTIES EJK_HAS_LLVM ON)
  target_link_libraries(${name} PRIVATE ${EJK_STATIC_LLVM})
  target_link_options(${name} PRIVATE -no-pie LINKER:--gc-sections)
endfunction()

# A static library of compiler code.
function(ejk_add_compiler_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${EJK_UNITY_BUILD} UNITY_BUILD_MODE GROUP)
  # Of one folder, whose files use the same namespaces.
  foreach(source IN LISTS A_SOURCES)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND files_of_${folder} ${source})
    list(LENGTH files_of_${folder} number)
    math(EXPR batch "(${number} - 1) / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${batch}")
  endforeach()
  ejk_set_compile_options(${name})
  ejk_use_precompiled_header(${name})
  target_link_libraries(${name} PUBLIC ${A_LINK}
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:EJK_HAS_LLVM>>>:MLIR$<SEMICOLON>LLVM>)
  if(A_DEPENDS)
    add_dependencies(${name} ${A_DEPENDS})
  endif()
endfunction()
