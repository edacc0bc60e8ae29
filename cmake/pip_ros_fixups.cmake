# SPDX-License-Identifier: Apache-2.0
# For builds against ROS 2 wheels: -DCMAKE_PROJECT_INCLUDE=this file.

# Returns in `result` the include directories that a target hands to its users.
function(_get_include_directories result target)
  get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT directories)
    set(directories "")
  endif()
  set(${result} "${directories}" PARENT_SCOPE)
endfunction()

# Some wheels export include directories of the machine that built them; CMake refuses a target with one that is missing.
function(_drop_missing_include_directories target)
  _get_include_directories(directories ${target})
  set(present "")
  foreach(directory IN LISTS directories)
    if(NOT IS_ABSOLUTE "${directory}" OR EXISTS "${directory}") # generator expressions are not absolute
      list(APPEND present "${directory}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${present}")
endfunction()

# A virtual environment inside the checkout puts numpy's headers inside the source tree, which CMake refuses to export.
function(_hide_include_directories_in_source target)
  _get_include_directories(directories ${target})
  set(hidden "")
  foreach(directory IN LISTS directories)
    cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${directory}" NORMALIZE is_in_source)
    if(is_in_source)
      list(APPEND hidden "$<BUILD_INTERFACE:${directory}>")
    else()
      list(APPEND hidden "${directory}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${hidden}")
endfunction()

function(_fix_targets)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    _drop_missing_include_directories(${target})
  endforeach()
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    _hide_include_directories_in_source(${target})
  endforeach()
endfunction()

# Deferred to the end of the configuration, when find_package() has created the targets.
cmake_language(DEFER CALL _fix_targets)
