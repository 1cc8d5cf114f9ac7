# One precompiled header for all compiler code: parsing MLIR's headers and instantiating
# their templates is four fifths of compiling a file of ours. Every source still includes what
# it uses; -DEJK_PRECOMPILED_HEADER=OFF builds without it and must give the same objects.
# ccache hits where the same folder was built before, and not for another folder: a precompiled
# header has the paths of all that it includes, which clang checks.
option(EJK_PRECOMPILED_HEADER "Parse MLIR's headers once for all compiler code" ON)

set(EJK_PRECOMPILED_HEADERS
  <optional> <string> <vector>
  llvm/ADT/DenseMap.h llvm/ADT/DenseSet.h llvm/ADT/MapVector.h llvm/ADT/STLExtras.h
  llvm/ADT/SetVector.h llvm/ADT/SmallVector.h llvm/ADT/StringExtras.h llvm/ADT/TypeSwitch.h
  mlir/Dialect/Arith/IR/Arith.h
  mlir/Dialect/Func/IR/FuncOps.h
  mlir/Dialect/GPU/IR/GPUDialect.h
  mlir/Dialect/LLVMIR/LLVMDialect.h
  mlir/Dialect/LLVMIR/NVVMDialect.h
  mlir/Dialect/Linalg/IR/Linalg.h
  mlir/Dialect/Math/IR/Math.h
  mlir/Dialect/MemRef/IR/MemRef.h
  mlir/Dialect/SCF/IR/SCF.h
  mlir/Dialect/Tensor/IR/Tensor.h
  mlir/Dialect/Vector/IR/VectorOps.h
  mlir/IR/Builders.h mlir/IR/BuiltinOps.h mlir/IR/BuiltinTypes.h mlir/IR/Dominance.h
  mlir/IR/IRMapping.h mlir/IR/Matchers.h mlir/IR/PatternMatch.h mlir/IR/SymbolTable.h
  mlir/IR/TypeUtilities.h
  mlir/Interfaces/SideEffectInterfaces.h
  mlir/Pass/Pass.h mlir/Pass/PassManager.h
  mlir/Transforms/GreedyPatternRewriteDriver.h
  dialect/ejk/Ejk.h
  dialect/tile/Tile.h)

if(EJK_PRECOMPILED_HEADER)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/cmake/precompiled.cpp CONTENT "// holds the header\n")
  set_source_files_properties(${CMAKE_BINARY_DIR}/cmake/precompiled.cpp PROPERTIES GENERATED ON)
  add_library(EjkPrecompiled OBJECT ${CMAKE_BINARY_DIR}/cmake/precompiled.cpp)
  ejk_set_compile_options(EjkPrecompiled)
  list(TRANSFORM EJK_PRECOMPILED_HEADERS REPLACE "^([a-z].*)$" "<\\1>")
  target_precompile_headers(EjkPrecompiled PRIVATE ${EJK_PRECOMPILED_HEADERS})
  add_dependencies(EjkPrecompiled EjkDialectIncGen EjkTileIncGen)
  # Clang checks the sizes of the files in a precompiled header, of which comments are a part. ccache
  # leaves comments out of what it compares unless told otherwise.
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    set_property(TARGET EjkPrecompiled PROPERTY CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1 ccache)
  endif()
endif()

function(ejk_use_precompiled_header target)
  if(EJK_PRECOMPILED_HEADER)
    target_precompile_headers(${target} REUSE_FROM EjkPrecompiled)
  endif()
endfunction()
