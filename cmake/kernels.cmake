# SPDX-License-Identifier: Apache-2.0
# The engine's kernels for one thread of a CPU, next to the package's code. Only what GCC makes of them is faster than
# torch, by the instructions that it chooses when they are loaded (GCC 12 or later on x86-64). Without them torch computes.
include(CheckCXXSourceCompiles)

function(install_kernels module_dir)
  set(CMAKE_REQUIRED_FLAGS -std=c++17)
  set(clones "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(clones "__attribute__((target_clones(\"arch=x86-64-v4\", \"arch=x86-64-v3\", \"default\")))")
  endif()
  set(probe "${clones} int bits(float x) { return __builtin_bit_cast(int, x); } int main() { return bits(1.0f); }")
  check_cxx_source_compiles("${probe}" COMPILES_KERNELS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT COMPILES_KERNELS)
    message(STATUS "no kernels of our own: they need GCC 12 or later")
    return()
  endif()
  add_library(${PROJECT_NAME}_kernels MODULE llm_planner/engine/kernels.cpp)
  file(SHA256 llm_planner/engine/kernels.cpp source_sha256)
  target_compile_definitions(${PROJECT_NAME}_kernels PRIVATE SOURCE_SHA256="${source_sha256}")
  target_compile_features(${PROJECT_NAME}_kernels PRIVATE cxx_std_17)
  # Sums in any order, but not-a-number stays what it is: no -ffast-math. No vector crosses a call: no warning of its ABI.
  target_compile_options(${PROJECT_NAME}_kernels PRIVATE -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math
    -fno-signed-zeros -fassociative-math -freciprocal-math -Wall -Wextra -Wno-psabi)
  install(TARGETS ${PROJECT_NAME}_kernels DESTINATION "${module_dir}")
endfunction()
