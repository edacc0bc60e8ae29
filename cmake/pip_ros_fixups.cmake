# For builds against ROS 2 wheels (-DCMAKE_PROJECT_INCLUDE=this file): some wheels export include directories of the
# machine that built them. CMake refuses a target with a directory that does not exist, so these are dropped.
function(drop_missing_include_directories)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT directories)
      continue()
    endif()
    set(present "")
    foreach(directory IN LISTS directories)
      if(NOT IS_ABSOLUTE "${directory}" OR EXISTS "${directory}") # generator expressions are not absolute
        list(APPEND present "${directory}")
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${present}")
  endforeach()
endfunction()
# Deferred to the end of the configuration, when find_package() has created the targets.
cmake_language(DEFER CALL drop_missing_include_directories)
